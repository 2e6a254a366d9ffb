//! The verdict, in every form.
