//! The reference store. If a case fails here, either the case or the specification is wrong.

use std::error::Error as StdError;

use postrider::envelope::Envelope;
use postrider::outbox::Dialect;
use postrider::store::memory::{Conn, MemoryStore};
use postrider::{Enlist, EventId};
use postrider_conformance::{Features, Harness};
use time::OffsetDateTime;

#[derive(Clone)]
pub(crate) struct Memory(MemoryStore);

impl Memory {
    fn fresh() -> Self {
        Self(MemoryStore::new())
    }
}

impl Harness for Memory {
    type Store = MemoryStore;

    fn features(&self) -> Features {
        Features { concurrent_transactions: false, connections: 8 }
    }

    fn store(&self) -> &MemoryStore {
        &self.0
    }

    async fn make_counter(&self, name: &str) {
        self.0.make_counter(name).await;
    }

    async fn add(&self, conn: &mut Conn, counter: &str) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(conn.add(counter)?)
    }

    async fn counter(&self, name: &str) -> i64 {
        self.0.counter(name).expect("the counter was made")
    }

    async fn write_down(&self, conn: &mut Conn, key: &str, sequence: i64) {
        conn.write_down(key, sequence);
    }

    async fn written_down(&self) -> Vec<(String, i64)> {
        self.0.written_down()
    }

    async fn insert_plainly(&self, conn: &mut Conn, event_id: &str, topic: &str, payload: &str) {
        let id = EventId::new(event_id).expect("a valid id");
        let event = Envelope::new(id, topic, payload, OffsetDateTime::now_utc());
        conn.insert(event).expect("a new id");
    }

    fn dialect(&self) -> Option<Dialect> {
        None
    }

    async fn bare_connection(&self) -> Box<Conn> {
        panic!("every connection of this store is a transaction")
    }

    async fn execute(&self, _: &mut Conn, _: &str, _: &[String]) {
        panic!("this store has no SQL")
    }

    async fn texts(&self, _: &str) -> Vec<Vec<Option<String>>> {
        panic!("this store has no SQL")
    }

    async fn swallow_a_database_error(&self, conn: &mut Conn) {
        conn.add("there is no such counter").expect_err("it is not there");
    }

    async fn shell_insert(&self, _sql: &str) -> Option<()> {
        None
    }

    fn sql_time(&self, _at: OffsetDateTime) -> String {
        unreachable!("there is no shell")
    }

    async fn hold_locks(&self, _lane: &str, _deliveries: u32) -> Option<<MemoryStore as Enlist>::Tx> {
        None
    }

    async fn unmigrated(&self, instances: usize) -> Vec<MemoryStore> {
        vec![MemoryStore::new(); instances]
    }

    async fn finish(self) {}
}

postrider_conformance::suite!(Memory::fresh());
