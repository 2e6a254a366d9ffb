//! The JSON Schema of the scenario file, from the reader's own forms, so that both agree.

use serde_json::{Map, Value, json};

use super::ROOT;
use super::form::{Form, Need, Section};

const LENGTH: &str = "[0-9]+(ns|us|ms|s|min|h|d)";

/// The JSON Schema, for completion and checks in editors.
#[must_use]
pub fn schema() -> Value {
    let mut schema = of_section(&ROOT);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        fields.insert("title".to_owned(), json!("Hookproof scenario"));
    }
    schema
}

fn of_section(section: &Section) -> Value {
    let properties: Map<String, Value> = section
        .fields
        .iter()
        .map(|field| {
            let mut form = of_form(&field.form);
            if let Value::Object(form) = &mut form {
                form.insert("description".to_owned(), json!(field.about));
            }
            (field.key.to_owned(), form)
        })
        .collect();
    let required = section.fields.iter().filter(|field| field.need == Need::Must).map(|field| field.key);
    json!({
        "type": "object",
        "description": section.about,
        "properties": properties,
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

fn of_form(form: &Form) -> Value {
    let text = |pattern: String| json!({ "type": "string", "pattern": pattern });
    match form {
        Form::Text => json!({ "type": "string" }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Count => json!({ "type": "integer", "minimum": 0 }),
        Form::Decimal => json!({ "type": "number", "minimum": 0 }),
        Form::Duration => text(format!("^{LENGTH}$")),
        Form::Rate => text("^[0-9]+/[0-9]*(ns|us|ms|s|min|h|d)$".to_owned()),
        Form::Size => text("^[0-9]+(B|KB|MB|GB|KiB|MiB|GiB)$".to_owned()),
        Form::Window => text(format!("^[0-9]+ per {LENGTH}$")),
        Form::Day => text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$".to_owned()),
        Form::Durations => text(format!("^{LENGTH}(\\.\\.{LENGTH})?$")),
        Form::Counts => {
            json!({ "oneOf": [of_form(&Form::Count), text("^[0-9]+(\\.\\.[0-9]+)?$".to_owned())] })
        }
        Form::Word(words) => json!({ "enum": words }),
        Form::List(form) => json!({ "type": "array", "items": of_form(form) }),
        Form::Map(form) => json!({ "type": "object", "additionalProperties": of_form(form) }),
        Form::Table(section) => of_section(section),
        Form::Tables(section) => json!({ "type": "array", "items": of_section(section) }),
        Form::Either(one, other) => json!({ "oneOf": [of_form(one), of_form(other)] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_every_key_and_refuses_others() {
        let schema = schema();
        let limit = &schema["properties"]["subscriber"]["items"]["properties"]["limit"];
        assert_eq!(limit["properties"]["rate"]["type"], "string");
        assert_eq!(limit["additionalProperties"], false);
        assert_eq!(schema["required"], json!(["name", "traffic", "subscriber"]));
    }
}
