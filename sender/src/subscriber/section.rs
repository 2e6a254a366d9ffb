//! One group of settings, declared once: its fields, their forms, their defaults, their ranges, and what they mean.

/// Makes two types of one table. The first is what people write: everything optional, unknown fields refused. The
/// second has every default filled in. A default may use the fields above it, so that a figure that was given moves
/// the defaults that depend on it rather than contradicting them.
///
/// The comments, defaults and ranges (`in …`) of the table are also what the reference shows.
/// `agreement` enforces the ranges; a test tries the bounds that stand here on it.
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
