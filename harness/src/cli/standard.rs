//! `--standard` and `--certificate` of `run` and `receiver`, and `hookproof verify-certificate`.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{Colours, Report, Unjudged, in_one_line, paint};
use hookproof_judge::standard::{
    self, Broken, Certificate, Grade, Graded, Grades, Level, PublicKey, Seen, Side, SigningKey, Standard,
};
use hookproof_judge::trace::Ended;
use zeroize::Zeroizing;

use super::forms;
use super::out::{self, FAILED, HARNESS, USAGE, print_stderr};
use crate::suite;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Standards")]
pub(super) struct Standards {
    /// Grade by a standard, such as standard-webhooks@1.0 (`hookproof list` shows all); may be given again
    #[arg(long = "standard", value_name = "NAME@REVISION")]
    asked: Vec<&'static Standard>,
    /// The folder of certificates: a page, JSON and a badge for each standard; without one, a receiver's is by all cases
    #[arg(long, value_name = "DIR")]
    certificate: Option<PathBuf>,
    /// Sign the certificates: a private key of Ed25519 in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    sign_key: Option<PathBuf>,
}

/// A tested program, and how it was tested.
pub(super) struct Subject<'a> {
    pub(super) side: Side,
    pub(super) name: &'a str,
    pub(super) runs: &'a [String],
    /// Of the user's own profile.
    pub(super) profile_sha256: Option<&'a str>,
    /// Runs that did not end, failed, or were not judged.
    pub(super) unsound: Vec<String>,
}

const MODE_OTHERS: u32 = 0o077;
const KEY_BYTES_MAX: u64 = 16 * 1024;

const ENDINGS: [&str; 3] = ["json", "html", "svg"];

fn file(folder: &Path, standard: &str, side: Side, ending: &str) -> PathBuf {
    folder.join(format!("{standard}-{side}.{ending}"))
}

impl Standards {
    fn asked_of(&self, side: Side) -> Vec<&'static Standard> {
        let default = self.certificate.as_ref().and_then(|_| standard::default_of(side));
        if self.asked.is_empty() { default.into_iter().collect() } else { self.asked.clone() }
    }

    /// Refuses a standard that demands nothing of this side, or another signing profile, and a folder that cannot be
    /// written. Removes older certificates, which must not stand for this run.
    pub(super) fn begin(&self, side: Side, profile: Option<&str>) -> Result<(), String> {
        let asked = self.asked_of(side);
        if asked.is_empty() && self.certificate.is_some() {
            return Err(format!(
                "--certificate of a {side} needs --standard; `hookproof list` names the standards"
            ));
        }
        for standard in &asked {
            if !standard.concerns(side) {
                return Err(format!("--standard {standard} demands nothing of a {side}"));
            }
            if let (Some(needed), Some(found)) = (standard.profile.as_deref(), profile)
                && needed != found
            {
                return Err(format!(
                    "--standard {standard} demands --profile {needed}; found {found}. --certificate alone grades by all cases, under any profile"
                ));
            }
        }
        let Some(folder) = &self.certificate else { return Ok(()) };
        if self.key()?.is_some_and(|(_, mode)| mode & MODE_OTHERS != 0) {
            print_stderr(
                "hookproof: other users can read the file of --sign-key, a private key; chmod 600 it",
            );
        }
        let failed = |error: io::Error| format!("--certificate {}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        for standard in &asked {
            for path in ENDINGS.map(|ending| file(folder, &standard.to_string(), side, ending)) {
                forms::try_to_open(&path).and_then(|()| removed(&path)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// With the mode of its file.
    fn key(&self) -> Result<Option<(SigningKey, u32)>, String> {
        let read = |path: &PathBuf| {
            let why = |error: &dyn std::fmt::Display| format!("--sign-key {}: {error}", path.display());
            let (pem, mode) = key_file(path).map_err(|error| why(&error))?;
            SigningKey::parse(&pem).map(|key| (key, mode)).map_err(|error| why(&error))
        };
        self.sign_key.as_ref().map(read).transpose()
    }

    /// Prints the grades, on stderr where stdout has JSON, and writes certificates. Returns the exit code.
    pub(super) fn grade(&self, subject: &Subject<'_>, seen: &[Seen<'_>], is_json_shown: bool) -> u8 {
        let asked = self.asked_of(subject.side);
        let graded = asked.iter().map(|standard| {
            let grades = standard.grade(subject.side, seen, subject.unsound.clone());
            let printed = print(&grades, is_json_shown);
            let written = self.certificate.as_deref().map_or(Ok(()), |folder| {
                let key = self.key().map_err(io::Error::other)?.map(|(key, _)| key);
                write(folder, subject, &grades, key.as_ref())
            });
            match printed.and(written) {
                Ok(()) => out::code(grades.verdict),
                Err(error) => {
                    print_stderr(format_args!("hookproof: the grades by {standard}: {error}"));
                    HARNESS
                }
            }
        });
        graded.fold(0, out::worse)
    }
}

fn removed(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn print(grades: &Grades, is_json_shown: bool) -> io::Result<()> {
    if is_json_shown {
        print_stderr(text(grades, Colours::of(false)));
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    let text = text(grades, Colours::of(stdout.is_terminal()));
    out::written(stdout.write_all(text.as_bytes()))
}

/// The requirements that are not met, one a line, then the verdict.
fn text(grades: &Grades, colours: Colours) -> String {
    let mut open: Vec<&Graded> = grades.requirements.iter().filter(|one| one.grade != Grade::Met).collect();
    open.sort_by_key(|one| (one.grade, one.level == Level::Should));
    let mut text = format!("\n{} ({}), {}\n", grades.title, grades.standard, grades.side);
    for one in open {
        let Graded { id, level, section, demand, told, grade, .. } = one;
        text.push_str(&format!(
            "  {:<13}  {id:<4} {level:<6}  {demand} ({section})\n{:26}{}\n",
            grade.words(),
            "",
            in_one_line(told)
        ));
    }
    text.extend(grades.unsound.iter().map(|why| format!("  unsound        {}\n", in_one_line(why))));
    let verdict = paint(grades.verdict, &grades.verdict.to_string(), colours);
    text + &format!("{}: {verdict}: {}\n", grades.standard, grades.summary())
}

fn key_file(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, u32)> {
    // Opening a pipe would block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let opened = File::open(path)?;
    let mode = opened.metadata()?.permissions().mode();
    let mut bytes = Zeroizing::new(Vec::new());
    opened.take(KEY_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, mode))
}

fn write(folder: &Path, subject: &Subject<'_>, grades: &Grades, key: Option<&SigningKey>) -> io::Result<()> {
    let certificate = Certificate {
        subject: subject.name,
        hookproof: env!("CARGO_PKG_VERSION"),
        date: &suite::today(),
        runs: subject.runs,
        profile_sha256: subject.profile_sha256,
        summary: grades.summary(),
        grades,
    };
    let file = |ending| file(folder, &grades.standard, subject.side, ending);
    forms::write(&file("json"), &certificate.json(key)?)?;
    forms::write(&file("html"), &certificate.page())?;
    forms::write(&file("svg"), &certificate.badge())?;
    print_stderr(format_args!("certificate: {}", file("html").display()));
    Ok(())
}

#[derive(Args, Debug)]
pub(super) struct Verify {
    /// The JSON of a certificate
    file: PathBuf,
    /// Your own profile: it must be the one that the certificate was made with
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The public key that must have signed it, in PEM
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// A digest shows damage. Only a signature by a known key shows who wrote the file.
pub(super) fn verify(asked: &Verify) -> ExitCode {
    let refuse = |why: &dyn std::fmt::Display, code| {
        out::refuse("verify-certificate", format_args!("{}: {why}", asked.file.display()), code)
    };
    let profile = match asked.profile.as_ref().map(fs::read).transpose() {
        Ok(profile) => profile,
        Err(error) => return refuse(&format_args!("--profile: {error}"), USAGE),
    };
    let key = asked.key.as_ref().map(|path| -> Result<_, String> {
        let pem = key_file(path).map_err(|error| error.to_string())?.0;
        PublicKey::parse(&pem).map_err(|error| error.to_string())
    });
    let key = match key.transpose() {
        Ok(key) => key,
        Err(error) => return refuse(&format_args!("--key: {error}"), USAGE),
    };
    let text = match fs::read_to_string(&asked.file) {
        Ok(text) => text,
        Err(error) => return refuse(&error, USAGE),
    };
    match standard::check(&text, profile.as_deref(), key.as_ref()) {
        Ok(line) => {
            out::one_line(line);
            ExitCode::SUCCESS
        }
        Err(broken @ (Broken::NotJson(_) | Broken::Lacks(_))) => refuse(&broken, USAGE),
        Err(broken) => refuse(&broken, FAILED),
    }
}

/// For `hookproof list`.
pub(super) fn listed() -> String {
    let line = |one: &Standard| {
        let sides = [Side::Sender, Side::Receiver].into_iter().filter(|side| one.concerns(*side));
        let sides = sides.map(|side| side.to_string()).collect::<Vec<_>>().join(", ");
        format!("  {:<28}  {} ({sides})\n", one.to_string(), one.title)
    };
    standard::all().iter().map(line).collect()
}

/// For `hookproof explain`.
pub(super) fn explained(standard: &Standard) -> String {
    let mut text = format!("{} ({standard})\n  {}\n", standard.title, standard.text);
    for one in &standard.requirement {
        let by = match &one.ungraded {
            Some(why) => format!("not graded: {why}"),
            None => format!("graded by {}", one.by.join(", ")),
        };
        text.push_str(&format!(
            "\n  {:<4} {:<8}  {:<6}  {} ({})\n{:25}{by}\n",
            one.id,
            one.of.to_string(),
            one.level.to_string(),
            one.demand,
            one.section,
            ""
        ));
    }
    text
}

/// Runs of a sender that show less than a grade says.
pub(super) fn unsound(reports: &[Report], unjudged: &[Unjudged]) -> Vec<String> {
    let bad = [Verdict::Fail, Verdict::Inconclusive, Verdict::HarnessError];
    let of_report = |report: &Report| {
        let Report { scenario, judgement, .. } = report;
        let judged = bad.contains(&judgement.status);
        let why = judged.then(|| format!("{scenario}: {}: {}", judgement.status, judgement.sentence));
        let cut = (report.ended != Some(Ended::Done)).then(|| format!("{scenario} did not run to its end"));
        why.into_iter().chain(cut).collect::<Vec<_>>()
    };
    let not_judged = unjudged.iter().map(|one| format!("{} was not judged: {}", one.subject, one.why));
    reports.iter().flat_map(of_report).chain(not_judged).collect()
}

/// The verdicts of a receiver's cases.
pub(super) fn seen_of_receiver(report: &suite::Report) -> Vec<Seen<'_>> {
    let rows = report.rows.iter();
    let seen = rows.map(|row| Seen {
        id: &row.id,
        // Standards demand that a forgery has no effect, with whatever answer.
        verdict: match (row.is_accident, row.had_no_effect) {
            (true, true) => Verdict::Pass,
            (true, false) => Verdict::Inconclusive,
            (false, _) => row.verdict,
        },
        told: row.came.clone(),
        passes_despite: row.had_no_effect.then_some(&*row.came),
        profiles: vec![&report.profile],
    });
    // An access that was not given says nothing of the receiver.
    let open = |seen: &Seen<'_>| seen.verdict == Verdict::NotApplicable && seen.told.starts_with("needs --");
    seen.map(|one| if open(&one) { Seen { verdict: Verdict::Inconclusive, ..one } } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_each_requirement_that_is_not_met_and_ends_with_the_verdict() {
        let standard: &Standard = "five-failures@1".parse().unwrap();
        let told = || "seen so".to_owned();
        let seen =
            |id, verdict| Seen { id, verdict, told: told(), passes_despite: None, profiles: Vec::new() };
        let all = [seen("rate.in-flight", Verdict::Pass), seen("retry.after-429", Verdict::Fail)];
        let text = text(&standard.grade(Side::Sender, &all, Vec::new()), Colours::of(false));
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}"));
        assert!(
            place("retry.after-429: seen so") < place("queue.bounded: not judged; queue.visible: not judged")
        );
        assert!(!text.contains("slow answers open"), "{text}");
        assert!(
            text.ends_with("five-failures@1: FAIL: 1 of 5 must met, 1 failed, 3 not exercised\n"),
            "{text}"
        );
    }
}
