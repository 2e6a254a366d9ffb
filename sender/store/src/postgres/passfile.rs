//! Passwords in a file that only its owner can read, in libpq's form (`.pgpass`). Unlike an argument, a file does not
//! show in `ps`.
//!
//! A line is `host:port:database:user:password`. `*` matches anything, `\` escapes a `:` or `\`, and `#` begins a
//! comment. The first matching line counts. A socket's host is its folder, or `localhost`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

const BYTES_MAX: u64 = 1 << 20;

pub(super) struct PassFile(Vec<[String; 5]>);

pub(super) struct Whom<'a> {
    pub(super) host: &'a str,
    pub(super) is_socket: bool,
    pub(super) port: u16,
    pub(super) database: Option<&'a str>,
    pub(super) user: Option<&'a str>,
}

impl PassFile {
    /// Reads a file that only its owner may access. Errors quote none of its contents.
    pub(super) fn read(path: &str) -> Result<Self, String> {
        let failed = |error| format!("passfile: {path}: {error}");
        let mut file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(format!(
                "passfile: {path} has mode {mode:04o}; expected 0600, so that nobody else can read it: chmod 600 {path}"
            ));
        }
        let mut text = String::new();
        file.by_ref().take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(format!("passfile: {path} is longer than {BYTES_MAX} bytes"));
        }
        Ok(Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(fields).collect()))
    }

    pub(super) fn password(&self, whom: &Whom<'_>) -> Option<&str> {
        let port = whom.port.to_string();
        let fits = |pattern: &str, found: Option<&str>| pattern == ANY || found == Some(pattern);
        let host =
            |pattern: &str| fits(pattern, Some(whom.host)) || (whom.is_socket && pattern == "localhost");
        // The default database has the user's name.
        let database = whom.database.or(whom.user);
        let found = self.0.iter().find(|[of_host, of_port, of_database, of_user, _]| {
            host(of_host)
                && fits(of_port, Some(&port))
                && fits(of_database, database)
                && fits(of_user, whom.user)
        })?;
        Some(found[4].as_str())
    }
}

/// Matches anything. As in libpq, so does an escaped `*`.
const ANY: &str = "*";

/// `None` if a line has fewer parts.
fn fields(line: &str) -> Option<[String; 5]> {
    let mut parts: [String; 5] = Default::default();
    let (mut at, mut letters) = (0, line.trim_end_matches('\r').chars());
    while let Some(letter) = letters.next() {
        match letter {
            // The password is the rest of the line, with its escapes resolved.
            ':' if at < 4 => at += 1,
            '\\' => parts[at].push(letters.next().unwrap_or('\\')),
            letter => parts[at].push(letter),
        }
    }
    (at == 4).then_some(parts)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    fn read(text: &str, mode: u32) -> Result<PassFile, String> {
        PassFile::read(file(text, mode).path().to_str().unwrap())
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# a comment\nshort:1\ndb:5432:shop:me:first\ndb:*:*:me:se\\:co\\\\nd:x\n*:6000:*:*:\nlocalhost:*:*:*:here\n";
        let file = read(text, 0o600).unwrap();
        let check = |host, port, database, user, expected: Option<&str>| {
            let whom = Whom { host, is_socket: host.starts_with('/'), port, database, user };
            assert_eq!(file.password(&whom), expected, "{host} {port} {database:?} {user:?}");
        };
        check("db", 5432, Some("shop"), Some("me"), Some("first"));
        check("db", 5433, Some("shop"), Some("me"), Some("se:co\\nd:x"));
        check("db", 5432, None, Some("me"), Some("se:co\\nd:x"));
        check("db", 5432, Some("shop"), Some("you"), None);
        check("db", 5432, Some("shop"), None, None);
        check("other", 6000, Some("shop"), Some("you"), Some(""));
        check("/run/postgresql", 5432, Some("shop"), Some("you"), Some("here"));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_shows_nothing() {
        for mode in [0o640, 0o604, 0o660] {
            let error = read("*:*:*:*:hush\n", mode).err().unwrap();
            assert!(error.contains("expected 0600") && !error.contains("hush"), "{error}");
        }
        assert!(read("*:*:*:*:hush\n", 0o400).is_ok());
        assert!(PassFile::read("/nowhere/at-all").is_err());
    }
}
