//! The points that a worker passes, and where it stops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::{Args, ValueEnum};

/// A point between two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Point {
    /// Consumers are registered: work may come.
    Ready,
    /// Business change and event are written, and not committed.
    Enqueued,
    /// They are committed, and not delivered.
    Committed,
    /// In the handler, before its effect.
    Handler,
    /// The effect is written, and not committed.
    Effect,
    /// It is committed, and the relay does not know yet.
    Settled,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", clap::builder::PossibleValue::get_name))
    }
}

/// Where to stop.
#[derive(Args)]
pub(crate) struct Stop {
    /// Stops at this point, and waits there for its end.
    #[arg(long)]
    stop_at: Option<Point>,
    /// Not the first time it gets there, but after having passed so often.
    #[arg(long, default_value_t = 0)]
    passing: u32,
    /// Only with this event.
    #[arg(long)]
    stop_with: Option<String>,
}

/// Says where the worker is.
#[derive(Clone)]
pub(crate) struct Stops(Arc<(Stop, AtomicU32)>);

impl Stops {
    pub(crate) fn new(stop: Stop) -> Self {
        Self(Arc::new((stop, AtomicU32::new(0))))
    }

    /// The worker is at `point` with `event`. Returns unless it is to stop there.
    pub(crate) async fn at(&self, point: Point, event: &str) {
        println!("at {point} {event}");
        let (stop, passed) = &*self.0;
        if stop.stop_at == Some(point)
            && stop.stop_with.as_deref().is_none_or(|with| with == event)
            && passed.fetch_add(1, Ordering::Relaxed) == stop.passing
        {
            println!("stopped {point} {event}");
            std::future::pending().await
        }
    }
}
