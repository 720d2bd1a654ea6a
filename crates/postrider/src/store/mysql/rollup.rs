//! Where events stand: read from their rows, and kept for lists.

use sqlx::mysql::MySqlConnection;

use super::error::meaning;
use super::{MySqlStore, json, rows};
use crate::error::Result;
use crate::limits;
use crate::store::batch::millis;
use crate::store::rollup::{Fold, LOOK_BACK, STRETCH, distinct};
use crate::store::{Finished, Folded, Found, Prune};

/// Events with their rows, without payload and metadata.
pub(super) async fn records(conn: &mut MySqlConnection, seqs: &[i64]) -> Result<Vec<Found>> {
    read(conn, sql!("records"), seqs).await
}

/// The next events that are old, those of them that are finished with everything they say.
pub(super) async fn finished(conn: &mut MySqlConnection, prune: &Prune) -> Result<Finished> {
    let limit = i64::from(prune.limit.clamp(1, limits::PASS_ROWS));
    let query = sqlx::query_as(sql!("finished_stretch")).bind(millis(prune.older_than)).bind(prune.after).bind(limit);
    let stretch: Vec<(i64, bool)> = query.fetch_all(&mut *conn).await.map_err(meaning)?;
    let seqs: Vec<i64> = stretch.iter().filter(|(_, finished)| *finished).map(|(seq, _)| *seq).collect();
    let events = read(conn, sql!("finished"), &seqs).await?;
    let next = stretch.last().map(|(seq, _)| *seq).filter(|_| stretch.len() as i64 == limit);
    Ok(Finished { events, next })
}

async fn read(conn: &mut MySqlConnection, sql: &'static str, seqs: &[i64]) -> Result<Vec<Found>> {
    let seqs = json(seqs)?;
    let events = sqlx::query(sql).bind(&seqs).fetch_all(&mut *conn).await.map_err(meaning)?;
    // Deliveries first: one that is done meanwhile is in the history then, and never in neither.
    let deliveries = sqlx::query(sql!("find_deliveries")).bind(&seqs).fetch_all(&mut *conn).await.map_err(meaning)?;
    let consumptions = sqlx::query(sql!("find_consumptions")).bind(&seqs).fetch_all(conn).await.map_err(meaning)?;
    rows::records(&events, &deliveries, &consumptions)
}

pub(super) async fn fold(store: &MySqlStore, limit: u32) -> Result<Folded> {
    let idle: bool = sqlx::query_scalar(sql!("fold_idle")).fetch_one(&store.work).await.map_err(meaning)?;
    if idle {
        return Ok(Folded::default());
    }
    let limit = i64::from(limit.clamp(1, limits::PASS_ROWS));
    let mut tx = store.work.begin().await.map_err(meaning)?;
    let folded_to: i64 = sqlx::query_scalar(sql!("fold_lock")).fetch_one(&mut *tx).await.map_err(meaning)?;
    let marks: Vec<(i64, i64)> =
        sqlx::query_as(sql!("fold_marks")).bind(limit).fetch_all(&mut *tx).await.map_err(meaning)?;
    let (ids, mut dirty): (Vec<i64>, Vec<i64>) = marks.into_iter().unzip();
    if !ids.is_empty() {
        sqlx::query(sql!("fold_take")).bind(json(&ids)?).execute(&mut *tx).await.map_err(meaning)?;
    }
    let query = sqlx::query_scalar(sql!("fold_expiring")).bind(limit);
    let expiring: Vec<i64> = query.fetch_all(&mut *tx).await.map_err(meaning)?;
    let mut more = [ids.len() as i64, expiring.len() as i64].contains(&limit);
    dirty.extend(expiring);
    let (upto, walked): (Option<i64>, i64) = sqlx::query_as(sql!("fold_stretch"))
        .bind(folded_to)
        .bind(STRETCH)
        .fetch_one(&mut *tx)
        .await
        .map_err(meaning)?;
    if let Some(upto) = upto {
        let query = sqlx::query_scalar(sql!("fold_new")).bind(folded_to - LOOK_BACK).bind(upto).bind(limit);
        let new: Vec<i64> = query.fetch_all(&mut *tx).await.map_err(meaning)?;
        let full = new.len() as i64 == limit;
        let upto = new.last().copied().filter(|_| full).unwrap_or(upto);
        more |= full || walked == STRETCH;
        dirty.extend(new);
        if upto > folded_to {
            sqlx::query(sql!("fold_done")).bind(upto).execute(&mut *tx).await.map_err(meaning)?;
        }
    }
    let dirty = distinct(dirty);
    if !dirty.is_empty() {
        let fold = Fold::of(&records(&mut tx, &dirty).await?)?;
        sqlx::query(sql!("fold_write")).bind(fold.rows).execute(&mut *tx).await.map_err(meaning)?;
        sqlx::query(sql!("fold_lookups")).bind(json(&fold.lookups)?).execute(&mut *tx).await.map_err(meaning)?;
        if let Some(figures) = fold.figures {
            sqlx::query(sql!("fold_figures")).bind(figures).execute(&mut *tx).await.map_err(meaning)?;
        }
    }
    tx.commit().await.map_err(meaning)?;
    Ok(Folded { events: dirty.len() as u64, more })
}
