use std::fmt::Write as _;

use serde_json::Value;

use super::examples::{EXAMPLES, Example};
use super::settings;
use crate::subscriber::description::{Default, Form, Setting, plain_text};

const HEAD: &str = "\
# Settings of a subscriber

You get every setting with its default and range. Set them as `KEY=VALUE` on the command line, or as JSON through the API, where the part
before the dot is an object:

```text
hookproof sender subscriber set shop limit.rate=20/s limit.windows='60 per 1s,900 per 1min' retry.ttl=null
PATCH /v1/subscribers/shop    {\"limit\": {\"rate\": \"20/s\", \"windows\": [\"60 per 1s\", \"900 per 1min\"]}, \"retry\": {\"ttl\": null}}
```

`null` brings a default back. A range includes both ends; a value outside is refused with the field, the value and the range.
`hookproof sender subscriber show` lists the settings in effect. In JSON all text is in quotes; whole numbers, `true` and `false` are not.

`hookproof sender settings` prints this reference, and with `--json-schema` as JSON Schema. It is generated from the types that read the
settings (`HOOKPROOF_BLESS=1 cargo test -p hookproof-sender --lib the_types`).
";

const COLUMNS: &str =
    "\n| setting | form, with an example | default | range | meaning |\n|---|---|---|---|---|\n";

pub(crate) fn page() -> String {
    let settings = settings();
    let mut page = HEAD.to_owned();
    push_forms(&mut page);
    page += "\n## Without a group\n";
    push_settings(&mut page, "", &settings.plain());
    for (setting, group) in settings.groups() {
        let _ = writeln!(page, "\n## `{}`\n\n{} {}", setting.name, setting.about, group.about);
        push_settings(&mut page, &format!("{}.", setting.name), &group.all());
        push_example(&mut page, setting.name);
    }
    page
}

fn push_forms(page: &mut String) {
    page.push_str("\n## Forms\n\n| form | how it is written |\n|---|---|\n");
    for (form, grammar) in Form::EXPLAINED {
        let _ = writeln!(page, "| {} | {} |", form.name(), grammar.replace('*', "\\*"));
    }
}

fn push_settings(page: &mut String, group: &str, settings: &[&Setting]) {
    page.push_str(COLUMNS);
    for setting in settings {
        let _ = writeln!(page, "{}", row(group, setting));
    }
    for setting in settings {
        let name = format!("{group}{}", setting.name);
        if let Form::Word(words) = &setting.form {
            let _ = writeln!(page, "\n`{name}`:\n");
            for (word, about) in words {
                let _ = writeln!(page, "- `{word}`: {about}");
            }
        }
        if let Some(rule) = setting.form.rule() {
            let _ = writeln!(page, "\nA rule of `{name}`: {}", rule.about);
            push_settings(page, "", &rule.all());
            push_example(page, &name);
        }
    }
}

fn row(group: &str, setting: &Setting) -> String {
    let Setting { name, about, form, range, default } = setting;
    let form = match form {
        Form::Word(_) => format!("one word: `{}`", plain_text(&form.example())),
        form => format!("{}: `{}`", form.name(), plain_text(&form.example())),
    };
    let default = match default {
        Default::Value(Value::Array(_)) | Default::Unset(_) | Default::Required => default.to_string(),
        Default::Value(_) => format!("`{default}`"),
    };
    format!("| `{group}{name}` | {form} | {default} | {range} | {about} |")
}

fn push_example(page: &mut String, setting: &str) {
    for Example { before, text, after, .. } in EXAMPLES.iter().filter(|example| example.setting == setting) {
        let _ = writeln!(page, "\nFor example. {before}\n\n```text\n{text}\n```\n\n{after}");
    }
}
