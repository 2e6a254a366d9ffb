use serde_json::{Map, Value, json};

use super::settings;
use crate::subscriber::description::{Bound, Default, Form, Group, Range, Setting};
use crate::units::{LENGTHS, SIZES};

pub(crate) fn schema() -> Value {
    let mut schema = of_group(&settings());
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Hookproof settings of a subscriber");
    schema
}

/// A subscriber has other fields too.
#[cfg(test)]
pub(crate) fn part() -> Value {
    let mut schema = of_group(&settings());
    if let Value::Object(fields) = &mut schema {
        fields.remove("additionalProperties");
    }
    schema
}

fn of_group(group: &Group) -> Value {
    let properties: Map<_, _> =
        group.settings.iter().map(|setting| (setting.name.to_owned(), of_setting(setting))).collect();
    let required = group.settings.iter().filter(|setting| setting.default == Default::Required);
    let required: Vec<_> = required.map(|setting| setting.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": group.about,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Optional settings may also be null.
fn of_setting(setting: &Setting) -> Value {
    let mut schema = of_form(&setting.form, &setting.range);
    if setting.default != Default::Required {
        allow_null(&mut schema);
    }
    schema["description"] = json!(description(setting));
    match (&setting.form, &setting.default) {
        (Form::Group(_), _) => {}
        // The default is empty, but cannot be written.
        (_, Default::Value(default)) if is_too_short(default, &setting.range) => {}
        (_, Default::Value(default)) => schema["default"] = default.clone(),
        (_, Default::Unset(_)) => schema["default"] = Value::Null,
        (_, Default::Required) => {}
    }
    if !matches!(setting.form, Form::Group(_) | Form::Word(_) | Form::Flag) {
        schema["examples"] = json!([setting.form.example()]);
    }
    schema
}

fn is_too_short(default: &Value, range: &Range) -> bool {
    matches!((default, range), (Value::Array(items), Range::Many(least, ..)) if items.len() < *least)
}

fn description(setting: &Setting) -> String {
    let mut text = setting.about.to_owned();
    match &setting.form {
        Form::Group(group) => text = format!("{text} {}", group.about),
        Form::Word(words) => {
            for (word, about) in words {
                text += &format!(" {word}: {}", about.trim_end_matches('.'));
                text.push('.');
            }
        }
        _ => {}
    }
    if !matches!(setting.range, Range::Any) {
        text += &format!(" Range: {}.", setting.range);
    }
    if let Default::Unset(what) = setting.default {
        text += &format!(" Unset: {what}.");
    }
    text
}

fn allow_null(schema: &mut Value) {
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    } else if let Some(Value::Array(forms)) = schema.get_mut("anyOf") {
        forms.push(json!({ "type": "null" }));
    } else {
        schema["type"] = json!([schema["type"], "null"]);
    }
}

fn of_form(form: &Form, range: &Range) -> Value {
    let mut schema = match form {
        Form::Duration => text(&length()),
        Form::Rate => text(&format!("[0-9]+/[0-9]*({})", units(&LENGTHS))),
        Form::WindowCap => text(&format!("[0-9]+ per {}", length())),
        Form::Size => text(&format!("[0-9]+({})", units(&SIZES))),
        Form::Region => text("[A-Za-z0-9_-]+"),
        Form::File => text("/.+"),
        Form::Pattern => text("(\\*|[A-Za-z0-9_.-]{1,128}(\\.\\*)?)"),
        Form::Path | Form::Url | Form::Name | Form::Header => json!({ "type": "string" }),
        Form::Count => json!({ "type": "integer" }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Word(words) => json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() }),
        Form::List(item) => {
            let each = if let Range::Many(.., each) = range { each } else { &Range::Any };
            json!({ "type": "array", "items": of_form(item, each) })
        }
        Form::Group(group) => of_group(group),
        Form::Either(one, other) => json!({ "anyOf": [of_form(one, range), of_form(other, &Range::Any)] }),
    };
    match (form, range) {
        (Form::Count, Range::Between(least, most)) => {
            for (name, bound) in [("minimum", least), ("maximum", most)] {
                if let Bound::Value(value) = bound {
                    schema[name] = value.clone();
                }
            }
        }
        (Form::List(_), Range::Many(least, most, _)) => {
            schema["minItems"] = json!(least);
            schema["maxItems"] = json!(most);
        }
        (
            Form::Region | Form::Path | Form::File | Form::Url | Form::Name | Form::Header,
            Range::Bytes(least, most),
        ) => {
            schema["minLength"] = json!(least);
            schema["maxLength"] = json!(most);
        }
        _ => {}
    }
    schema
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^{pattern}$") })
}

fn length() -> String {
    format!("[0-9]+({})", units(&LENGTHS))
}

fn units(units: &[(&str, u64)]) -> String {
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    names.join("|")
}
