//! Settings of subscribers as TOML over a scenario: the output of advice, and the input of `--patch`.

use hookproof_judge::scenario::{Scenario, Subscriber};
use toml::{Table, Value};

use super::live::LiveError;

/// In the limits and queues of groups, each with its cost.
pub(super) fn patch<'a>(
    before: &Scenario,
    after: &Scenario,
    groups: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = String::new();
    for (group, cost) in groups {
        let of =
            |scenario: &Scenario| scenario.subscribers.iter().find(|one| one.group == group).map(settings);
        let (Some(before), Some(after)) = (of(before), of(after)) else { continue };
        let mut table = Table::from_iter([("name".to_owned(), Value::from(group))]);
        for ((section, old), (_, mut new)) in before.into_iter().zip(after) {
            new.retain(|key, value| old.get(key) != Some(value));
            if !new.is_empty() {
                table.insert(section.to_owned(), new.into());
            }
        }
        let document = Table::from_iter([("subscriber".to_owned(), Value::from(vec![table]))]);
        text.push_str(&format!("# {cost}\n{document}\n"));
    }
    text.truncate(text.trim_end().len());
    text
}

fn settings(one: &Subscriber) -> [(&'static str, Table); 2] {
    let (limit, queue) = (&one.limit, &one.queue);
    let whole = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX).into();
    let windows: Vec<String> = limit.windows.iter().map(ToString::to_string).collect();
    let limit = [
        ("rate", limit.bucket.map(|bucket| bucket.rate.to_string().into())),
        ("burst", limit.bucket.map(|bucket| i64::from(bucket.burst).into())),
        ("windows", Some(windows.into())),
        ("in_flight", limit.in_flight.map(|count| i64::from(count).into())),
    ];
    let queue =
        [("rows", queue.rows.map(whole)), ("bytes", queue.bytes.map(|bytes| bytes.to_string().into()))];
    [("limit", table(limit)), ("queue", table(queue))]
}

fn table<const COUNT: usize>(settings: [(&str, Option<Value>); COUNT]) -> Table {
    settings.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Applies settings to a scenario: `[[subscriber]]` by name, everything else by key.
///
/// # Errors When the text is not TOML, names an unknown subscriber, or makes the scenario invalid.
pub fn with_patch(scenario: &Scenario, patch: &str) -> Result<Scenario, LiveError> {
    let read = |text: &str| text.parse::<Table>().map_err(|error| LiveError::Scenario(error.to_string()));
    let (mut document, patch) = (read(&scenario.text)?, read(patch)?);
    for (key, value) in patch {
        match (key.as_str(), value) {
            ("subscriber", Value::Array(tables)) => subscribers(&mut document, tables)?,
            (_, value) => lay(document.entry(key).or_insert_with(|| Table::new().into()), value),
        }
    }
    super::live::scenario_of(scenario, &document)
}

fn subscribers(document: &mut Table, patches: Vec<Value>) -> Result<(), LiveError> {
    let mut known = Vec::new();
    if let Some(Value::Array(tables)) = document.get_mut("subscriber") {
        known.extend(tables.iter_mut());
    }
    for patch in patches {
        let name = patch.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let names: Vec<String> =
            known.iter().filter_map(|one| Some(one.get("name")?.as_str()?.to_owned())).collect();
        let place = names.iter().position(|one| *one == name).ok_or_else(|| {
            LiveError::Scenario(format!(
                "the patch names an unknown subscriber {name:?}; expected one of {}",
                names.join(", ")
            ))
        })?;
        if let Some(table) = known.get_mut(place) {
            lay(table, patch);
        }
    }
    Ok(())
}

/// By key; other values are replaced.
fn lay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Table(under), Value::Table(over)) => {
            for (key, value) in over {
                lay(under.entry(key).or_insert_with(|| Table::new().into()), value);
            }
        }
        (under, over) => *under = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"s\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                        limit = { rate = \"5/s\", burst = 3 }\n[[subscriber]]\nname = \"b\"\n";

    #[test]
    fn settings_are_laid_over_those_of_the_name() {
        let scenario = Scenario::from_text(TEXT, "s.toml").unwrap();
        let patch = "[[subscriber]]\nname = \"a\"\nlimit.rate = \"6/s\"\n[[subscriber]]\nname = \"b\"\n\
                     queue = { rows = 7 }\n";
        let patched = with_patch(&scenario, patch).unwrap();
        let bucket = patched.subscribers[0].limit.bucket.unwrap();
        assert_eq!((bucket.rate.to_string(), bucket.burst), ("6/s".to_owned(), 3));
        assert_eq!(patched.subscribers[1].queue.rows, Some(7));
    }

    #[test]
    fn a_patch_for_somebody_else_is_refused_with_who_there_is() {
        let scenario = Scenario::from_text(TEXT, "s.toml").unwrap();
        let refused = |patch: &str| with_patch(&scenario, patch).unwrap_err().to_string();
        assert!(refused("[[subscriber]]\nname = \"c\"\n").contains("\"c\"; expected one of a, b"));
        assert!(refused("[[subscriber]]\nname = \"a\"\nlimit.rat = \"6/s\"\n").contains("rat"));
        assert!(refused("[[subscriber").contains("the scenario with the data of the sender is invalid"));
    }
}
