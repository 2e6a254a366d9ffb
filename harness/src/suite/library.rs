//! Faults of official libraries: the shots that fail in a receiver that does no more than ask one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hookproof_judge::signature::Profile;
use serde::Deserialize;

static ALL: LazyLock<Vec<Library>> = LazyLock::new(|| {
    let file: File =
        toml::from_str(include_str!("libraries.toml")).expect("the file is part of this program, and tested");
    file.library
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    library: Vec<Library>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// With its version.
    pub name: String,
    profile: String,
    /// The labels of failed shots by their case.
    #[serde(default)]
    shots: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--library {given}: expected a library for {profile} with its version: {}", if known.is_empty() { "none is listed" } else { known })]
pub struct UnknownLibrary {
    given: String,
    profile: String,
    known: String,
}

impl Library {
    pub fn find(given: &str, profile: Profile) -> Result<&'static Self, UnknownLibrary> {
        let all = || ALL.iter().filter(|library| library.profile == profile.name());
        all().find(|library| library.name == given).ok_or_else(|| UnknownLibrary {
            given: given.to_owned(),
            profile: profile.name().to_owned(),
            known: all().map(|library| library.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    pub(super) fn fails(&self, case: &str, label: &str) -> bool {
        self.shots.get(case).is_some_and(|labels| labels.iter().any(|known| known == label))
    }
}

#[cfg(test)]
mod tests {
    use hookproof_judge::catalogue;

    use super::*;

    #[test]
    fn each_listed_library_is_found_by_its_profile_alone_and_lists_cases_of_the_catalogue() {
        assert!(ALL.iter().any(|library| !library.shots.is_empty()));
        for library in ALL.iter() {
            let profile = library.profile.parse().unwrap();
            assert_eq!(Library::find(&library.name, profile).unwrap().name, library.name);
            assert!(library.shots.keys().all(|case| catalogue::find(case).is_some()), "{}", library.name);
        }
        let error = Library::find("svix@1.99.1", Profile::GITHUB).unwrap_err().to_string();
        assert_eq!(
            error,
            "--library svix@1.99.1: expected a library for github with its version: @octokit/webhooks-methods@6.0.0"
        );
    }
}
