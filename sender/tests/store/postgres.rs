//! The contract's store in PostgreSQL: a schema for each test, on one server.

use hookproof_sender::store::lane::Limits;
use hookproof_sender::store::postgres::{Address, Options, PostgresReader, PostgresStore};
use hookproof_sender::store::{Reader, Store};

use crate::postgres_server::{execute, new_schema};
use crate::world::Backend;

/// A store in a schema of its own.
pub(crate) struct Schema {
    address: String,
    limits: Limits,
}

impl Schema {
    fn at(&self) -> Address {
        self.address.parse().unwrap()
    }
}

impl Backend for Schema {
    fn is_there(test: &str) -> bool {
        new_schema(test).is_some()
    }

    fn new(limits: Limits) -> Self {
        Self { address: new_schema("a test").unwrap(), limits }
    }

    fn store(&self) -> Box<dyn Store> {
        let options = Options { limits: self.limits, create: true, identity: u64::MAX };
        Box::new(PostgresStore::open(&self.at(), &options).unwrap())
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(PostgresReader::open(&self.at()).unwrap())
    }

    /// The server lives on here; that what it acknowledged survives it is tried by killing it (`tests/crash`).
    fn after_power_cut(&self) -> Self {
        Self { address: self.address.clone(), limits: self.limits }
    }

    fn application_emits(&self, kind: &str, key: Option<&str>, data: &str, event: Option<&str>) {
        let text = |text: Option<&str>| {
            text.map_or("NULL".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
        };
        let values = [Some(kind), key, Some(data), event].map(text).join(", ");
        execute(&self.address, &format!("INSERT INTO outbox (type, key, data, event) VALUES ({values})"));
    }

    fn application_numbers(&self, id: i64) {
        execute(&self.address, &format!("INSERT INTO outbox (id, type, data) VALUES ({id}, 'a', '1')"));
    }
}
