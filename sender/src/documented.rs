//! Objects in configuration, whose documentation the reference of settings shows.

/// Declares the type, and keeps what is said of it and of its fields. `as` is the name of a field in configuration where
/// it can't be that of the code.
macro_rules! documented {
    (
        $(#[doc = $about:literal])+
        #[derive($($derived:ident),+)]
        $(#[serde($($serde:tt)*)])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($form:tt)*)])*
                pub $field:ident $(as $written:literal)?: $type:ty,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive($($derived),+)]
        $(#[serde($($serde)*)])*
        pub struct $name {
            $(
                $(#[doc = $doc])+
                $(#[serde($($form)*)])*
                $(#[serde(rename = $written)])?
                pub $field: $type,
            )+
        }

        impl $name {
            /// What it is.
            pub const ABOUT: &'static str = concat!($($about),+).trim_ascii();
            /// The names of its fields.
            pub const FIELDS: &'static [&'static str] =
                &[$( $crate::documented::documented!(@name $field $($written)?) ),+];
            /// What each of them means.
            pub const MEANINGS: &'static [&'static str] = &[$( concat!($($doc),+).trim_ascii() ),+];
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $written:literal) => { $written };
}

pub(crate) use documented;
