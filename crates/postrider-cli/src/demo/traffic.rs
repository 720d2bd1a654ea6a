//! The traffic: first the story, then orders at a rate, until it is stopped.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller::Caller;
use super::people::{Customer, chance, fresh, pick, restock};
use super::services::Service;
use super::story::Story;
use crate::{End, print_note};

/// Customers at a time: a slow machine gets fewer orders, not a queue of them.
const CUSTOMERS: usize = 64;
/// Customers that order again.
const REGULARS: usize = 20;
/// The interval of restocking.
const SHELVES: Duration = Duration::from_secs(20);
/// The interval of the status line.
const LINE: Duration = Duration::from_secs(2);

/// The actors around the shop.
#[derive(Clone)]
pub(super) struct Traffic {
    pub(super) caller: Caller,
    pub(super) rate: f64,
    pub(super) fail_rate: f64,
    pub(super) stop: CancellationToken,
}

impl Traffic {
    /// Subscribes the services, restocks, and starts all actors.
    pub(super) async fn start(self, tasks: &TaskTracker, story: Option<Story>) -> Result<(), End> {
        for service in Service::ALL {
            service.subscribe(&self.caller).await.map_err(End::Wrong)?;
            tasks.spawn(service.work(self.caller.clone(), self.fail_rate, self.stop.clone()));
        }
        restock(&self.caller).await.map_err(End::Wrong)?;
        if let Some(story) = story {
            let (caller, stop) = (self.caller.clone(), self.stop.clone());
            tasks.spawn(async move {
                if let Some(Err(why)) = stop.run_until_cancelled(story.play(&caller)).await {
                    print_note(format!("the story stopped: {why}"));
                }
            });
        }
        let orders = Arc::new(AtomicU64::new(0));
        tasks.spawn(self.clone().sell(tasks.clone(), Arc::clone(&orders)));
        tasks.spawn(self.clone().supply());
        if std::io::stdout().is_terminal() {
            tasks.spawn(self.watch(orders));
        }
        Ok(())
    }

    /// Sends customers at the rate.
    async fn sell(self, tasks: TaskTracker, orders: Arc<AtomicU64>) {
        if self.rate <= 0.0 {
            return;
        }
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / self.rate));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let room = Arc::new(Semaphore::new(CUSTOMERS));
        let mut regulars: VecDeque<String> = VecDeque::new();
        while self.stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
            let is_new = regulars.len() < REGULARS || chance(0.2);
            let user_id = if is_new { fresh("customer") } else { regulars[pick(regulars.len())].clone() };
            if is_new {
                regulars.push_back(user_id.clone());
                if regulars.len() > REGULARS {
                    regulars.pop_front();
                }
            }
            let (traffic, orders) = (self.clone(), Arc::clone(&orders));
            tasks.spawn(async move {
                let customer = Customer { caller: &traffic.caller, user_id };
                orders.fetch_add(1, Ordering::Relaxed);
                // A refusal ends the order; `Caller` has logged it.
                let _ = async {
                    customer.arrive(20_000, 200).await?;
                    customer.buy(&traffic.stop).await
                }
                .await;
                drop(place);
            });
        }
    }

    /// Restocks in intervals.
    async fn supply(self) {
        while self.stop.run_until_cancelled(tokio::time::sleep(SHELVES)).await.is_some() {
            let _ = restock(&self.caller).await;
        }
    }

    /// A status line that overwrites itself.
    async fn watch(self, orders: Arc<AtomicU64>) {
        let since = Instant::now();
        while self.stop.run_until_cancelled(tokio::time::sleep(LINE)).await.is_some() {
            let Ok(stats) = self.caller.get("/api/v1/stats?minutes=10080").await else { continue };
            let sum = |field: &str| -> u64 {
                let minutes = stats["minutes"].as_array().into_iter().flatten();
                minutes.filter_map(|minute| minute[field].as_u64()).sum()
            };
            let now = |field: &str| stats[field].as_u64().unwrap_or_default();
            let seconds = since.elapsed().as_secs();
            let line = format!(
                "{:02}:{:02}  {} orders  │  events: {} written, {} consumed  │  deliveries: {} waiting, {} retrying, {} dead",
                seconds / 60,
                seconds % 60,
                orders.load(Ordering::Relaxed),
                sum("created"),
                sum("consumed"),
                now("backlog"),
                now("retrying"),
                now("dead"),
            );
            let mut out = std::io::stdout();
            // The reader may have closed the terminal.
            let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
        }
    }
}
