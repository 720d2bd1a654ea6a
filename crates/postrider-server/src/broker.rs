//! What the other instances tell about the broker: the row of an event does not say why it waits.

use postrider::entry::DeliveryStatus;
use postrider::presence::BrokerReport;
use postrider::store::{Delivery, Instance, LIVE, Record};
use postrider::subscription::RABBITMQ;

use crate::App;

/// The worst report of the live instances; of several, the one that is true for longest.
pub(crate) fn state(instances: &[Instance]) -> Option<&BrokerReport> {
    let reports = || instances.iter().filter_map(|one| one.running.broker.as_ref());
    let worst = reports().filter(|report| report.state.is_waited_for()).min_by_key(|report| report.since);
    worst.or_else(|| reports().max_by_key(|report| report.since))
}

/// Adds to deliveries that wait for the broker since when it is away, and why. They had no attempt, so nothing is stored.
pub(crate) async fn explain(app: &App, records: &mut [Record]) -> postrider::Result<()> {
    if !records.iter().any(|record| record.deliveries.iter().any(is_waiting)) {
        return Ok(());
    }
    let instances = app.store.instances(LIVE).await?;
    let Some(report) = state(&instances).filter(|report| report.state.is_waited_for()) else { return Ok(()) };
    let why = report.to_string();
    for record in records {
        for delivery in record.deliveries.iter_mut().filter(|delivery| is_waiting(delivery)) {
            delivery.last_error = Some(why.clone());
        }
    }
    Ok(())
}

fn is_waiting(delivery: &Delivery) -> bool {
    delivery.lane == RABBITMQ && matches!(delivery.status, DeliveryStatus::New | DeliveryStatus::Processing)
}
