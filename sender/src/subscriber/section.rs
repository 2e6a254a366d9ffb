/// Declares one group of settings: the written form, with all fields optional and unknown ones refused, and
/// the form with all defaults. A default may use the fields above it, to adapt to given values.
///
/// The reference shows the comments, defaults and ranges (`in …`). `agreement` enforces the ranges; a test
/// compares both.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $text:ident, filled in as $full:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde(deserialize_with = $reader:literal)])?
                $field:ident: $type:ty = $default:expr $(, in $range:expr)?;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $text {
            $(
                $(#[doc = $doc])+
                $(#[serde(deserialize_with = $reader)])?
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) struct $full {
            $( pub(super) $field: $type, )*
        }

        impl $text {
            /// The names of its fields.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            pub(super) fn filled(&self) -> $full {
                $( let $field: $type = self.$field.clone().unwrap_or_else(|| $default); )*
                $full { $($field),* }
            }
        }

        impl From<$full> for $text {
            fn from(full: $full) -> Self {
                Self { $( $field: Some(full.$field), )* }
            }
        }

        impl $crate::subscriber::description::Written for $text {
            fn form() -> $crate::subscriber::description::Form {
                use $crate::subscriber::description;

                let full = Self::default().filled();
                let settings = vec![$(
                    description::Setting {
                        name: stringify!($field),
                        about: concat!($($doc),+).trim_ascii(),
                        form: <$type as description::Written>::form(),
                        range: description::Range::of([$($range.into())?]),
                        default: description::Default::value(&full.$field),
                    }
                ),*];
                let about = concat!($($about),+).trim_ascii();
                description::Form::Group(description::Group { about, settings })
            }
        }
    };
}

pub(super) use section;
