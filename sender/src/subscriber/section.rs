//! One group of settings, declared once: its fields, their forms, and their defaults.

/// Makes two types of one table. The first is what people write: everything optional, unknown fields refused. The
/// second has every default filled in. A default may use the fields above it, so that a figure that was given moves
/// the defaults that depend on it rather than contradicting them.
macro_rules! section {
    (
        $(#[$about:meta])*
        $text:ident, filled in as $full:ident {
            $( $(#[$doc:meta])* $field:ident: $type:ty = $default:expr; )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $text {
            $(
                $(#[$doc])*
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
    };
}

pub(super) use section;
