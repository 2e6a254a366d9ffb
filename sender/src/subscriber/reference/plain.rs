use std::fmt::Write as _;

use super::examples::EXAMPLES;
use super::settings;
use crate::subscriber::description::{Default, Form, Range, Setting, plain_text};

/// In characters.
const WIDTH: usize = 100;

pub(crate) fn text() -> String {
    let settings = settings();
    let mut text = wrapped(settings.about, "");
    text.push_str(
        "Set them with KEY=VALUE of `subscriber add` and `subscriber set`, or as JSON through the API.\n",
    );
    push_settings(&mut text, "", &settings.plain());
    for (setting, group) in settings.groups() {
        let _ = writeln!(text, "\n{}", setting.name.to_uppercase());
        text += &wrapped(&format!("{} {}", setting.about, group.about), "");
        push_settings(&mut text, &format!("{}.", setting.name), &group.all());
    }
    text.push_str("\nFORMS\n");
    for (form, grammar) in Form::EXPLAINED {
        text += &wrapped(&format!("{}: {grammar}", form.name()), "  ");
    }
    for example in EXAMPLES {
        let _ = writeln!(text, "\nEXAMPLE OF {}", example.setting.to_uppercase());
        text += &wrapped(example.before, "");
        let _ = writeln!(text, "\n{}\n", indented(example.text));
        text += &wrapped(example.after, "");
    }
    text
}

fn push_settings(text: &mut String, group: &str, settings: &[&Setting]) {
    for setting in settings {
        let name = format!("{group}{}", setting.name);
        let _ = writeln!(text, "\n  {}", heading(&name, &setting.default));
        *text += &wrapped(setting.about, "      ");
        *text += &wrapped(&bounds(setting), "      ");
        if let Form::Word(words) = &setting.form {
            words.iter().for_each(|(word, about)| *text += &wrapped(&format!("{word}: {about}"), "        "));
        }
        if let Some(rule) = setting.form.rule() {
            push_settings(text, &format!("{name}[]."), &rule.all());
        }
    }
}

fn heading(name: &str, default: &Default) -> String {
    match default {
        Default::Value(value) => format!("{name}  (default: {})", plain_text(value)),
        Default::Unset(what) => format!("{name}  (unset: {what})"),
        Default::Required => format!("{name}  (required)"),
    }
}

fn bounds(setting: &Setting) -> String {
    let form = setting.form.name();
    match (&setting.form, &setting.range) {
        (Form::Word(_) | Form::Flag, _) => format!("Form: {form}."),
        (form_of, Range::Any) => format!("Form: {form}, such as {}.", plain_text(&form_of.example())),
        (form_of, range) => {
            format!("Form: {form}, such as {}. Range: {range}.", plain_text(&form_of.example()))
        }
    }
}

/// Wraps lines to [`WIDTH`] characters.
fn wrapped(words: &str, margin: &str) -> String {
    let mut text = String::new();
    let mut line = margin.to_owned();
    for word in words.split_whitespace() {
        let is_first = line.len() == margin.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += &line;
            text.push('\n');
            line = margin.to_owned();
        } else if !is_first {
            line.push(' ');
        }
        line += word;
    }
    text + &line + "\n"
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("  {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}
