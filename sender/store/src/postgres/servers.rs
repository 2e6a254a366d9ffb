//! The servers that an address names, and connecting to the first usable one.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Socket};

use super::failure::failure;
use super::tls::Tls;
use crate::StoreError;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const READY_WITHIN: Duration = Duration::from_secs(5);

const PORT: u16 = 5432;

const CONNECTING: &str = "connect to the database";

#[derive(Clone)]
pub(super) struct Servers {
    each: Vec<Server>,
    tls: Option<Tls>,
    /// The index of the last server that worked. It is tried first, so that a silent server before it does not delay
    /// every connection.
    last: Arc<AtomicUsize>,
    /// Whether only a server that takes writes will do. Otherwise one connection may reach a standby that lacks the
    /// last commits.
    take_writes: bool,
    ready_within: Duration,
}

#[derive(Clone)]
struct Server {
    config: Config,
    host: String,
}

impl Servers {
    /// Errors quote nothing of a password.
    pub(super) fn of(config: &Config, tls: Option<Tls>) -> Result<Self, String> {
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = hosts.len().max(addresses.len());
        if count == 0 {
            return Err("it names no host; for a local server give the folder of its socket, such as \
                 %2Fvar%2Frun%2Fpostgresql"
                .to_owned());
        }
        if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
            return Err(format!(
                "hosts: {}, addresses in hostaddr: {}; expected as many of each",
                hosts.len(),
                addresses.len()
            ));
        }
        if ports.len() > 1 && ports.len() != count {
            return Err(format!(
                "hosts: {count}, ports: {}; expected one port, or one for each host",
                ports.len()
            ));
        }
        let each = (0..count).map(|index| Server::of(config, index)).collect();
        let asked = config.get_target_session_attrs();
        let take_writes = count > 1 || asked == TargetSessionAttrs::ReadWrite;
        Ok(Self { each, tls, last: Arc::default(), take_writes, ready_within: READY_WITHIN })
    }

    pub(super) fn with_passwords(mut self, file: &PassFile) -> Self {
        for server in &mut self.each {
            let config = &server.config;
            let whom = ConnectTarget {
                host: &server.host,
                is_socket: matches!(config.get_hosts().first(), Some(Host::Unix(_))),
                port: config.get_ports().first().copied().unwrap_or(PORT),
                database: config.get_dbname(),
                user: config.get_user(),
            };
            if let Some(password) = file.password(&whom) {
                server.config.password(password);
            }
        }
        self
    }

    /// The same servers with a limit for reaching each, and one for its readiness.
    pub(super) fn within(&self, length: Duration) -> Self {
        let mut hurried = Self { ready_within: length, ..self.clone() };
        for server in &mut hurried.each {
            server.config.connect_timeout(length.min(server.reached_within()));
        }
        hurried
    }

    /// Connects to a server, and runs the first statements. A separate task drives the connection. A server that
    /// accepts a connection and stays silent counts as lost.
    pub(super) async fn connect(&self, first: &str) -> Result<(Client, AbortHandle), StoreError> {
        let (count, last) = (self.each.len(), self.last.load(Ordering::Relaxed));
        let mut none = NoneWillDo::default();
        for index in (0..count).map(|step| (last + step) % count) {
            let server = &self.each[index];
            match timeout(self.connected_within(server), self.connect_to(server, first)).await {
                Ok(Ok(connected)) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(connected);
                }
                Ok(Err(error)) => none.since(&server.host, error),
                Err(_) => {
                    let detail = "it accepts the connection and does not answer".to_owned();
                    none.since(&server.host, StoreError::Lost { doing: CONNECTING, detail });
                }
            }
        }
        Err(none.into_error())
    }

    async fn connect_to(&self, server: &Server, first: &str) -> Result<(Client, AbortHandle), StoreError> {
        let failed = |error| failure(CONNECTING, &error);
        let (client, carried) = match &self.tls {
            Some(tls) => carried(&server.config, tls.clone()).await,
            None => carried(&server.config, NoTls).await,
        }
        .map_err(|error| match failure(CONNECTING, &error) {
            // The client itself cannot log in: no password, an unknown method, or a bad name for TLS.
            StoreError::Broken { doing, detail } if error.as_db_error().is_none() => {
                StoreError::NotAdmitted { doing, detail }
            }
            error => error,
        })?;
        if self.take_writes {
            let told = client.simple_query("SHOW transaction_read_only").await.map_err(failed)?;
            if told
                .iter()
                .any(|told| matches!(told, SimpleQueryMessage::Row(row) if row.get(0) == Some("on")))
            {
                let detail = "its transaction_read_only is on".to_owned();
                return Err(StoreError::TakesNoWrites { doing: CONNECTING, detail });
            }
        }
        client.batch_execute(first).await.map_err(failed)?;
        Ok((client, carried))
    }

    fn connected_within(&self, server: &Server) -> Duration {
        server.reached_within().saturating_add(self.ready_within)
    }
}

#[derive(Default)]
struct NoneWillDo {
    /// The first permanent error.
    stays: Option<StoreError>,
    passes: Vec<String>,
    takes_no_writes: bool,
}

impl NoneWillDo {
    fn since(&mut self, host: &str, error: StoreError) {
        match error {
            StoreError::Lost { detail, .. } => self.passes.push(format!("{host}: {detail}")),
            StoreError::TakesNoWrites { detail, .. } => {
                self.passes.push(format!("{host}: {detail}"));
                self.takes_no_writes = true;
            }
            error if self.stays.is_none() => self.stays = Some(error),
            _ => {}
        }
    }

    fn into_error(self) -> StoreError {
        let (doing, detail) = (CONNECTING, self.passes.join("; "));
        match self.stays {
            Some(error) => error,
            None if self.takes_no_writes => StoreError::TakesNoWrites { doing, detail },
            None => StoreError::Lost { doing, detail },
        }
    }
}

impl Server {
    fn of(all: &Config, index: usize) -> Self {
        let mut config = Config::new();
        let host = all.get_hosts().get(index);
        match host {
            Some(Host::Tcp(name)) => config.host(name),
            Some(Host::Unix(path)) => config.host_path(path),
            None => &mut config,
        };
        let address = all.get_hostaddrs().get(index);
        if let Some(address) = address {
            config.hostaddr(*address);
        }
        let ports = all.get_ports();
        if let Some(port) = ports.get(index).or_else(|| ports.first()) {
            config.port(*port);
        }
        if let Some(user) = all.get_user() {
            config.user(user);
        }
        if let Some(password) = all.get_password() {
            config.password(password);
        }
        if let Some(name) = all.get_dbname() {
            config.dbname(name);
        }
        if let Some(options) = all.get_options() {
            config.options(options);
        }
        if let Some(name) = all.get_application_name() {
            config.application_name(name);
        }
        config.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
        config.channel_binding(all.get_channel_binding());
        config.load_balance_hosts(all.get_load_balance_hosts());
        config.connect_timeout(all.get_connect_timeout().copied().unwrap_or(CONNECT_WITHIN));
        if let Some(length) = all.get_tcp_user_timeout() {
            config.tcp_user_timeout(*length);
        }
        config.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
        if let Some(length) = all.get_keepalives_interval() {
            config.keepalives_interval(length);
        }
        if let Some(count) = all.get_keepalives_retries() {
            config.keepalives_retries(count);
        }
        let named = host.map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let host = named.or_else(|| address.map(ToString::to_string)).unwrap_or_default();
        Self { config, host }
    }

    fn reached_within(&self) -> Duration {
        *self.config.get_connect_timeout().unwrap_or(&CONNECT_WITHIN)
    }
}

async fn carried<T>(config: &Config, tls: T) -> Result<(Client, AbortHandle), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    let carried = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    });
    Ok((client, carried.abort_handle()))
}

/// The hosts, without ports.
impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, server) in self.each.iter().enumerate() {
            let joint = if place == 0 { "" } else { "," };
            write!(f, "{joint}{}", server.host)?;
        }
        Ok(())
    }
}

// Passwords in a file that only its owner can read, in libpq's form (`.pgpass`). Unlike an argument, a file does not
// show in `ps`.
//
// A line is `host:port:database:user:password`. `*` matches anything, `\` escapes a `:` or `\`, and `#` begins a
// comment. The first matching line counts. A socket's host is its folder, or `localhost`.

const BYTES_MAX: u64 = 1 << 20;

pub(super) struct PassFile(Vec<[String; 5]>);

pub(super) struct ConnectTarget<'a> {
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
                "passfile: {path} has mode {mode:04o}; expected 0600, readable only by its owner: chmod 600 \
                 {path}"
            ));
        }
        let mut text = String::new();
        file.by_ref().take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(format!("passfile: {path} is longer than {BYTES_MAX} bytes"));
        }
        Ok(Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(fields).collect()))
    }

    pub(super) fn password(&self, whom: &ConnectTarget<'_>) -> Option<&str> {
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn servers(text: &str) -> Result<Servers, String> {
        Servers::of(&text.parse().unwrap(), None)
    }

    #[test]
    fn each_server_has_the_settings_of_the_address_and_its_own_host_and_port() {
        let text = "postgres://me:hush@a:1,b:2/hooks?application_name=x&options=-cjit%3Doff&connect_timeout=3&tcp_user_timeout=4\
                    &keepalives=0&keepalives_idle=6&keepalives_interval=7&keepalives_retries=8&channel_binding=disable\
                    &load_balance_hosts=random&sslmode=disable&sslnegotiation=postgres";
        let one_by_one = [("a", "1"), ("b", "2")].map(|(host, port)| {
            text.replace("a:1,b:2", &format!("{host}:{port}")).parse::<Config>().unwrap()
        });
        let all = servers(text).unwrap();
        assert_eq!(all.each.len(), 2);
        for (server, alone) in all.each.iter().zip(one_by_one) {
            assert_eq!(server.config, alone);
        }
        assert_eq!(all.to_string(), "a,b");
        let local = servers("postgres://me@%2Frun,b/hooks?hostaddr=1.2.3.4,1.2.3.5").unwrap();
        let [local, far] = &local.each[..] else { panic!("two") };
        assert_eq!(
            (local.config.get_hosts(), local.config.get_ports()),
            (&[Host::Unix("/run".into())][..], &[5432][..])
        );
        assert_eq!(
            (far.config.get_hostaddrs(), far.config.get_ports()),
            (&[[1, 2, 3, 5].into()][..], &[5432][..])
        );
    }

    /// Each connection must find the writable server: a claim from a standby would hand out deliveries that were made
    /// since.
    #[test]
    fn of_several_servers_the_one_that_takes_writes_is_meant() {
        let take_writes = |place: &str| servers(&format!("postgres://me@{place}")).unwrap().take_writes;
        for place in [
            "a,b/hooks",
            "a:1,b:2/hooks",
            "a,b/hooks?target_session_attrs=any",
            "/hooks?hostaddr=1.2.3.4,1.2.3.5",
            "a/hooks?target_session_attrs=read-write",
        ] {
            assert!(take_writes(place), "{place}");
        }
        assert!(!take_writes("a/hooks"), "also a standby tells operators of itself");
    }

    #[test]
    fn a_process_that_works_without_a_connection_waits_less_for_each_server() {
        let seconds = Duration::from_secs;
        let all = |servers: &Servers| {
            servers.each.iter().map(|one| servers.connected_within(one)).sum::<Duration>()
        };
        let patient = servers("postgres://me@a,b/hooks").unwrap();
        assert_eq!((all(&patient), all(&patient.within(seconds(1)))), (seconds(20), seconds(4)));
        let asked = servers("postgres://me@a/hooks?connect_timeout=1").unwrap().within(seconds(2));
        assert_eq!(all(&asked), seconds(3), "what was asked for is not exceeded");
    }

    #[test]
    fn hosts_that_do_not_fit_are_told_of() {
        for (text, told) in [
            ("postgres:///hooks", "names no host"),
            ("postgres://a,b/hooks?hostaddr=1.2.3.4", "hosts: 2, addresses in hostaddr: 1;"),
            ("postgres://a:1,b:2,c:3/hooks?port=4", "hosts: 3, ports: 4;"),
        ] {
            let error = servers(text).err().unwrap_or_default();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn a_password_that_is_missing_is_told_as_that() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asking = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            // The request for a clear-text password: R, the length, code 3.
            socket.write_all(b"R\0\0\0\x08\0\0\0\x03").await.unwrap();
            let mut rest = Vec::new();
            socket.read_to_end(&mut rest).await.unwrap();
        });
        let servers = servers(&format!("postgres://me@127.0.0.1:{port}/hooks")).unwrap();
        let error = servers.connect("").await.unwrap_err();
        assert!(matches!(error, StoreError::NotAdmitted { .. }), "{error}");
        assert!(error.to_string().contains("password missing") && !error.passes_by_itself(), "{error}");
        asking.await.unwrap();
    }

    #[test]
    fn the_error_says_why_each_of_several_servers_was_refused() {
        let lost = || StoreError::Lost { doing: CONNECTING, detail: "refused".to_owned() };
        let standby = || StoreError::TakesNoWrites { doing: CONNECTING, detail: "a standby".to_owned() };
        let stays = || StoreError::NotAdmitted { doing: CONNECTING, detail: "no such role".to_owned() };
        let told = |errors: Vec<StoreError>| {
            let mut none = NoneWillDo::default();
            for (host, error) in ["a", "b", "c"].iter().zip(errors) {
                none.since(host, error);
            }
            none.into_error()
        };
        let lost_all = told(vec![lost(), lost()]);
        assert!(matches!(&lost_all, StoreError::Lost { detail, .. } if detail == "a: refused; b: refused"));
        let no_writes = told(vec![lost(), standby()]);
        assert!(
            matches!(&no_writes, StoreError::TakesNoWrites { detail, .. } if detail == "a: refused; b: a standby")
        );
        assert!(matches!(told(vec![lost(), stays(), standby()]), StoreError::NotAdmitted { .. }));
    }

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
            let whom = ConnectTarget { host, is_socket: host.starts_with('/'), port, database, user };
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
