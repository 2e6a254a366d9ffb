use serde_json::{Map, Value, json};

use super::{Default, Group, Range, Setting};
use crate::engine::Nanos;
use crate::event::Pattern;
use crate::event::coalesce::{Coalescing, CoalescingRule};
use crate::event::shape::{PseudonymRule, ShapingRules};
use crate::sign::{ExtraHeader, Profile};
use crate::units::{Bytes, Quantity, Rate, WindowCap};

#[derive(Debug)]
pub(crate) enum Form {
    Duration,
    Rate,
    WindowCap,
    Size,
    Count,
    Flag,
    Pattern,
    Path,
    File,
    Url,
    Name,
    Region,
    Header,
    Word(Vec<(&'static str, &'static str)>),
    List(Box<Form>),
    Group(Group),
    Either(Box<Form>, Box<Form>),
}

impl Form {
    pub(in crate::subscriber) const EXPLAINED: [(Self, &'static str); 11] = [
        (Self::Duration, Quantity::Duration.expected()),
        (Self::Rate, Quantity::Rate.expected()),
        (Self::WindowCap, Quantity::Window.expected()),
        (Self::Size, Quantity::Size.expected()),
        (
            Self::Pattern,
            "* for all events, video.trending for one type, video.* for all that begin with video.",
        ),
        (Self::Path, "names with dots between them, 16 at most, such as stats.views"),
        (Self::File, "an absolute path, such as /etc/hookproof/shop.pem"),
        (Self::Url, "an http or https address, such as https://login.example/token"),
        (Self::Region, "letters, digits, _ and -, such as DE"),
        (Self::Name, "any text, such as creator"),
        (Self::Header, "a name, a colon and a value, such as X-Team: orders"),
    ];

    pub(in crate::subscriber) fn name(&self) -> String {
        match self {
            Self::Duration => "duration".to_owned(),
            Self::Rate => "rate".to_owned(),
            Self::WindowCap => "window cap".to_owned(),
            Self::Size => "size".to_owned(),
            Self::Count => "whole number".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Pattern => "event pattern".to_owned(),
            Self::Path => "path".to_owned(),
            Self::File => "file".to_owned(),
            Self::Url => "URL".to_owned(),
            Self::Name => "name".to_owned(),
            Self::Region => "region".to_owned(),
            Self::Header => "header".to_owned(),
            Self::Word(words) => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                format!("one of {}", words.join(", "))
            }
            Self::List(item) => format!("list: each a {}", item.name()),
            Self::Group(_) => "rule".to_owned(),
            Self::Either(one, other) => format!("{} or a {}", one.name(), other.name()),
        }
    }

    /// Not the default, and within the range of every setting of this form.
    pub(in crate::subscriber) fn example(&self) -> Value {
        match self {
            Self::Duration => json!("2s"),
            Self::Rate => json!("20/s"),
            Self::WindowCap => json!("60 per 1s"),
            Self::Size => json!("64MiB"),
            Self::Count => json!(7),
            Self::Flag => json!(true),
            Self::Pattern => json!("video.*"),
            Self::Path => json!("stats.views"),
            Self::File => json!("/etc/hookproof/shop.pem"),
            Self::Url => json!("https://login.example/token"),
            Self::Name => json!("creator"),
            Self::Region => json!("DE"),
            Self::Header => json!("X-Team: orders"),
            Self::Word(words) => words.get(1).map_or(Value::Null, |(word, _)| json!(word)),
            Self::List(item) => json!([item.example()]),
            Self::Group(group) => {
                let fields = group.settings.iter();
                let fields = fields.map(|setting| (setting.name.to_owned(), setting.form.example()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Self::Either(one, _) => one.example(),
        }
    }

    /// `None` unless it is a list of rules.
    pub(in crate::subscriber) fn rule(&self) -> Option<&Group> {
        let Self::List(item) = self else { return None };
        match &**item {
            Self::Group(rule) => Some(rule),
            Self::Either(_, other) => match &**other {
                Self::Group(rule) => Some(rule),
                _ => None,
            },
            _ => None,
        }
    }
}

pub(crate) trait Written {
    fn form() -> Form;
}

macro_rules! written {
    ($($type:ty => $form:expr;)+) => {
        $( impl $crate::subscriber::description::Written for $type {
            fn form() -> $crate::subscriber::description::Form {
                $form
            }
        } )+
    };
}

pub(in crate::subscriber) use written;

written! {
    Nanos => Form::Duration;
    Rate => Form::Rate;
    WindowCap => Form::WindowCap;
    Bytes => Form::Size;
    u32 => Form::Count;
    u64 => Form::Count;
    bool => Form::Flag;
    Pattern => Form::Pattern;
    ExtraHeader => Form::Header;
    Profile => Form::Word(Profile::ALL.map(|word| (word.name(), word.about())).into());
    CoalescingRule => Form::Group(Group {
        about: CoalescingRule::ABOUT,
        settings: fields(CoalescingRule::FIELDS, CoalescingRule::MEANINGS, [
            (Form::Pattern, Range::Any, Default::Required),
            (Form::Duration, (Nanos(1)..=Coalescing::WINDOW_MAX).into(), Default::Required),
        ]),
    });
    PseudonymRule => Form::Group(Group {
        about: PseudonymRule::ABOUT,
        settings: fields(PseudonymRule::FIELDS, PseudonymRule::MEANINGS, [
            (Form::Path, PATH, Default::Required),
            (Form::Name, PATH, Default::Unset("the name that it has")),
        ]),
    });
}

pub(in crate::subscriber) const PATH: Range = Range::Bytes(1, ShapingRules::PATH_BYTES_MAX);

impl<T: Written + serde::Serialize> Written for Vec<T> {
    fn form() -> Form {
        Form::List(Box::new(T::form()))
    }
}

/// The fields of a `documented!` type.
pub(in crate::subscriber) fn fields<const COUNT: usize>(
    names: &'static [&'static str],
    meanings: &'static [&'static str],
    forms: [(Form, Range, Default); COUNT],
) -> Vec<Setting> {
    assert_eq!((names.len(), meanings.len()), (COUNT, COUNT), "each field has its form: {names:?}");
    let fields = names.iter().zip(meanings).zip(forms);
    fields
        .map(|((name, about), (form, range, default))| Setting { name, about, form, range, default })
        .collect()
}
