/// Declares a configuration type, and keeps its doc comments for the reference of settings. `as` gives a
/// field's name in configuration if it differs.
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
            pub const ABOUT: &'static str = concat!($($about),+).trim_ascii();
            pub const FIELDS: &'static [&'static str] =
                &[$( $crate::documented::documented!(@name $field $($written)?) ),+];
            pub const MEANINGS: &'static [&'static str] = &[$( concat!($($doc),+).trim_ascii() ),+];
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $written:literal) => { $written };
}

pub(crate) use documented;
