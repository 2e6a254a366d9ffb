//! Enumerations whose variants are words in configuration, each with what it means: said once, for whoever reads the code
//! and for whoever reads the reference of settings.

/// Declares the enumeration, the default first. How it is read and written is the type's own affair.
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
            /// All of them, the default first.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Its name in configuration.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }

            /// What it means.
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
