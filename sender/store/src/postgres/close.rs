use super::failure::failure;
use super::{PostgresStore, StoreError, latencies, sweep};

impl PostgresStore {
    /// Writes the pending latencies, and retires this writer's row if it has counted little.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        let doing = "write the latencies";
        let mut gathered = std::mem::take(&mut self.gathered);
        let sql = self.link.as_ref().ok_or_else(|| self.lost(doing))?;
        let retired = if self.writer.is_new() { vec![self.writer.0] } else { Vec::new() };
        // In sequence, because sweeps lock these rows in the opposite order.
        sql.batch("BEGIN")
            .and_then(|()| latencies::flush_all(sql, &mut gathered))
            .and_then(|()| sql.batch("COMMIT"))
            .and_then(|()| sql.execute(sweep::RETIRE, &[&retired, &i64::MAX]))
            .map_or_else(|error| Err(failure(doing, &error)), |_| Ok(()))
    }
}
