//! What a sender or receiver hands on of its grades: JSON, a page, and a badge.

use serde::Serialize;
use serde_json::Value;

use super::signed::{PublicKey, Signature, SigningKey};
use super::{Grade, Graded, Grades, Level};
use crate::catalogue::Verdict;
use crate::report::{Cell, Document, Headline, Part, Table, page};
use crate::signature::sha256_hex;

#[derive(Debug, Serialize)]
pub struct Certificate<'a> {
    pub subject: &'a str,
    pub hookproof: &'a str,
    /// Such as 2026-01-31.
    pub date: &'a str,
    pub runs: &'a [String],
    /// SHA-256 of the user's own signing profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_sha256: Option<&'a str>,
    pub summary: String,
    #[serde(flatten)]
    pub grades: &'a Grades,
}

/// The digest of all members but the signature.
const DIGEST: &str = "sha256";
const SIGNATURE: &str = "signature";
const PROFILE: &str = "profile_sha256";

#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("it is no JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error(
        "it is in another form than Hookproof writes: a member stands twice, or its blanks or order were changed"
    )]
    Form,
    #[error("it has no member {name:?}, so it is no certificate", name = .0)]
    Lacks(&'static str),
    #[error("it was changed: its digest is {stated}, and that of its content is {found}")]
    Changed { stated: String, found: String },
    #[error("it is by another profile: its digest is {stated}, and that of the file is {found}")]
    Profile { stated: String, found: String },
    #[error("it is by none of your own profiles, so not by this one")]
    Embedded,
    #[error("its signature is not one of its digest by the key {0}")]
    Signature(String),
    #[error("it is signed by another key, {found}; expected {expected}")]
    Key { found: PublicKey, expected: PublicKey },
    #[error("it is not signed; expected a signature by {0}")]
    Unsigned(PublicKey),
}

impl Certificate<'_> {
    /// Signed by the key, if there is one. Fails only if a value has no form in JSON.
    pub fn json(&self, key: Option<&SigningKey>) -> Result<String, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        let digest = sha256_hex(value.to_string().as_bytes());
        let signature = key.map(|key| serde_json::to_value(key.sign(&digest))).transpose()?;
        if let Value::Object(members) = &mut value {
            members.insert(DIGEST.to_owned(), digest.into());
            members.extend(signature.map(|signature| (SIGNATURE.to_owned(), signature)));
        }
        serde_json::to_string_pretty(&value)
    }

    #[must_use]
    pub fn page(&self) -> String {
        let Grades { standard, title, text, side, verdict, unsound, .. } = self.grades;
        let profile = self.profile_sha256.map(|digest| format!("sha256 of the profile: {digest}"));
        let runs = self.runs.iter().cloned().chain(profile).map(|run| vec![Cell::Code(run)]);
        page(&Document {
            title: format!("{} by {standard}", self.subject),
            about: (*title).to_owned(),
            facts: vec![side.to_string(), self.date.to_owned(), format!("hookproof {}", self.hookproof)],
            verdict: Headline {
                status: Some(*verdict),
                sentence: self.summary.clone(),
                failures: Vec::new(),
                more: unsound.iter().cloned().chain([format!("The standard: {text}")]).collect(),
            },
            parts: vec![
                Part::Title("Requirements".to_owned()),
                Part::Table(self.table()),
                Part::Title("Runs".to_owned()),
                Part::Table(Table { rows: runs.collect(), ..Table::default() }),
            ],
        })
    }

    fn table(&self) -> Table {
        let mut all: Vec<&Graded> = self.grades.requirements.iter().collect();
        all.sort_by_key(|one| one.grade);
        let row = |one: &&Graded| {
            let grade = match one.grade.status(one.level) {
                Some(status) => Cell::Status(status),
                None => Cell::Text(one.grade.words().to_owned()),
            };
            let demand = format!("{}: {} ({})", one.level, one.demand, one.section);
            vec![grade, Cell::Code(one.id.to_owned()), Cell::Text(demand), Cell::Text(one.told.clone())]
        };
        let head = ["grade", "id", "requirement", "finding"];
        Table { head: head.map(str::to_owned).to_vec(), rows: all.iter().map(row).collect(), searched: false }
    }

    #[must_use]
    pub fn badge(&self) -> String {
        const LETTER: usize = 7;
        let musts = || self.grades.requirements.iter().filter(|one| one.level == Level::Must);
        let met = musts().filter(|one| one.grade == Grade::Met).count();
        let left = self.grades.standard.as_str();
        let right = format!("{} {met} of {}", self.grades.verdict, musts().count());
        let (left_width, right_width) = ((left.len() + 2) * LETTER, (right.len() + 2) * LETTER);
        let width = left_width + right_width;
        let colour = match self.grades.verdict {
            Verdict::Pass => "#1a7f37",
            Verdict::Fail => "#b42318",
            Verdict::Warn => "#8a6100",
            Verdict::Inconclusive | Verdict::NotApplicable | Verdict::HarnessError => "#57606a",
        };
        let text =
            |x: usize, text: &str| format!("<text x=\"{x}\" y=\"14\" text-anchor=\"middle\">{text}</text>");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" \
             aria-label=\"{left}: {right}\"><title>{left}: {right}, {date}</title>\
             <rect width=\"{left_width}\" height=\"20\" fill=\"#24292f\"/>\
             <rect x=\"{left_width}\" width=\"{right_width}\" height=\"20\" fill=\"{colour}\"/>\
             <g fill=\"#fff\" font-family=\"DejaVu Sans Mono,monospace\" font-size=\"11\">{}{}</g></svg>\n",
            text(left_width / 2, left),
            text(left_width + right_width / 2, &right),
            date = self.date,
        )
    }
}

impl Grade {
    const fn status(self, level: Level) -> Option<Verdict> {
        match (self, level) {
            (Self::Failed, Level::Must) => Some(Verdict::Fail),
            (Self::Failed, Level::Should) => Some(Verdict::Warn),
            (Self::NotExercised, _) => Some(Verdict::Inconclusive),
            (Self::Met, _) => Some(Verdict::Pass),
            (Self::Ungraded | Self::NotApplicable, _) => None,
        }
    }
}

/// Whether a certificate's JSON is as it was written, by this profile and signed by this key if they are given; its subject,
/// standard, verdict, date and signer in one line. A digest shows damage, and no forgery.
pub fn check(text: &str, profile: Option<&[u8]>, key: Option<&PublicKey>) -> Result<String, Broken> {
    let mut value: Value = serde_json::from_str(text)?;
    // A member that stands twice would show one value and be checked by another.
    if text.trim_end() != serde_json::to_string_pretty(&value)? {
        return Err(Broken::Form);
    }
    let mut taken = |name| value.as_object_mut().and_then(|members| members.remove(name));
    let (digest, signature) = (taken(DIGEST), taken(SIGNATURE));
    let Some(Value::String(stated)) = digest else { return Err(Broken::Lacks(DIGEST)) };
    let found = sha256_hex(value.to_string().as_bytes());
    if found != stated {
        return Err(Broken::Changed { stated, found });
    }
    if let Some(found) = profile.map(sha256_hex) {
        let stated = value.get(PROFILE).and_then(Value::as_str).ok_or(Broken::Embedded)?;
        if found != stated {
            return Err(Broken::Profile { stated: stated.to_owned(), found });
        }
    }
    let signer = signer(signature, &found, key)?;
    let member = |name| value.get(name).and_then(Value::as_str).ok_or(Broken::Lacks(name));
    let [subject, standard, side, date, summary] =
        ["subject", "standard", "side", "date", "summary"].map(member);
    let verdict = member("verdict")?;
    Ok(format!(
        "{} ({}) by {} on {}: {}: {}; {signer}",
        subject?,
        side?,
        standard?,
        date?,
        verdict.to_uppercase(),
        summary?
    ))
}

fn signer(signature: Option<Value>, digest: &str, key: Option<&PublicKey>) -> Result<String, Broken> {
    let Some(signature) = signature else {
        return key.map_or_else(|| Ok("not signed".to_owned()), |key| Err(Broken::Unsigned(key.clone())));
    };
    let signature: Signature = serde_json::from_value(signature)?;
    let found = signature.public_key.clone();
    match key {
        _ if !signature.holds(digest) => Err(Broken::Signature(found.to_string())),
        Some(expected) if *expected != found => Err(Broken::Key { found, expected: expected.clone() }),
        _ => Ok(format!("signed by {found}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standard::{Seen, Side, Standard};

    fn grades() -> Grades {
        let standard: &Standard = "five-failures@1".parse().unwrap();
        let told = || "a <b>".to_owned();
        let seen =
            |id, verdict| Seen { id, verdict, told: told(), passes_despite: None, profiles: Vec::new() };
        standard.grade(
            Side::Sender,
            &[seen("rate.in-flight", Verdict::Pass), seen("recovery.no-storm", Verdict::Fail)],
            vec!["viral-spike: FAIL".to_owned()],
        )
    }

    fn certificate(grades: &Grades) -> Certificate<'_> {
        let (date, summary) = ("2026-11-28", grades.summary());
        let profile_sha256 = Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        Certificate { subject: "mine", hookproof: "0.1.0", date, runs: &[], profile_sha256, summary, grades }
    }

    #[test]
    fn a_certificate_is_whole_until_one_letter_changes() {
        let grades = grades();
        let json = certificate(&grades).json(None).unwrap();
        let line = "mine (sender) by five-failures@1 on 2026-11-28: FAIL: \
                    1 of 5 must met, 1 failed, 3 not exercised; not signed";
        assert_eq!(check(&json, None, None).unwrap(), line);
        assert_eq!(check(&json, Some(b"abc"), None).unwrap(), line);
        assert!(matches!(check(&json, Some(b"abd"), None), Err(Broken::Profile { .. })));
        let embedded = Certificate { profile_sha256: None, ..certificate(&grades) }.json(None).unwrap();
        assert_eq!(check(&embedded, None, None).unwrap(), line);
        assert!(matches!(check(&embedded, Some(b"abc"), None), Err(Broken::Embedded)));
        let changed = json.replace("\"fail\"", "\"pass\"");
        assert_ne!(changed, json);
        assert!(matches!(check(&changed, None, None), Err(Broken::Changed { .. })));
        assert!(matches!(check("{}", None, None), Err(Broken::Lacks("sha256"))));
        let twice = json.replacen('{', "{\n  \"verdict\": \"pass\",", 1);
        assert!(matches!(check(&twice, None, None), Err(Broken::Form)));
        assert!(matches!(check("x", None, None), Err(Broken::NotJson(_))));
    }

    #[test]
    fn the_page_lists_failures_first_and_the_badge_has_the_verdict() {
        let grades = grades();
        let page = certificate(&grades).page();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not on the page"));
        assert!(at("storm at recovery") < at("unbounded queue"));
        assert!(at("unbounded queue") < at("rate without a cap in flight"));
        at("recovery.no-storm: a &lt;b&gt;");
        at("viral-spike: FAIL");
        assert!(certificate(&grades).badge().contains("five-failures@1: FAIL 1 of 5"));
    }
}
