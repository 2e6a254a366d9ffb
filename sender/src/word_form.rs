//! Enumerations of words in configuration. Their doc comments also appear in the reference of settings.

/// Declares the enumeration, the default first. Parsing and printing are up to the type.
macro_rules! word_form {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[doc = $about:literal])+ $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[doc = $about])+ $variant, )+
        }

        impl $name {
            /// All variants, the default first.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }

            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!($($about),+).trim_ascii(), )+
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }
    };
}

pub(crate) use word_form;
