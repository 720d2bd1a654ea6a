//! The points that a worker passes, and where it stops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::{Args, ValueEnum};

/// A point between two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Point {
    /// Consumers are registered; events may arrive.
    Ready,
    /// The change and the event are written, not committed.
    Enqueued,
    /// They are committed, not delivered.
    Committed,
    /// In the handler, before the effect.
    Handler,
    /// The effect is written, not committed.
    Effect,
    /// The effect is committed; the relay has not seen the result.
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
    /// Blocks at this point until the process is killed.
    #[arg(long)]
    stop_at: Option<Point>,
    /// How often to pass the point before stopping there.
    #[arg(long, default_value_t = 0)]
    passing: u32,
    /// Stops only with this event.
    #[arg(long)]
    stop_with: Option<String>,
}

/// Prints the points that the worker passes, and stops it.
#[derive(Clone)]
pub(crate) struct Stops(Arc<(Stop, AtomicU32)>);

impl Stops {
    pub(crate) fn new(stop: Stop) -> Self {
        Self(Arc::new((stop, AtomicU32::new(0))))
    }

    /// Prints that the worker is at `point` with `event`. Never returns if the worker is to stop there.
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
