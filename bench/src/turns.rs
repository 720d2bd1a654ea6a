//! Alternates two sides in short turns, so that fast and slow phases of the machine affect both. A difference of ten
//! percent is then measurable.

use std::time::{Duration, Instant};

use crate::Outcome;
use crate::report::Round;

/// The events and the time of one turn, or the total of a side.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) events: usize,
    pub(crate) took: Duration,
}

impl Turn {
    /// Times work that returns its number of events.
    pub(crate) async fn time<E>(work: impl Future<Output = Result<usize, E>>) -> Result<Self, E> {
        let started = Instant::now();
        let events = work.await?;
        Ok(Self { events, took: started.elapsed() })
    }

    async fn add(&mut self, goal: usize, side: &mut impl AsyncFnMut(usize) -> Outcome<Turn>) -> Outcome<()> {
        let turn = side(goal).await?;
        if turn.events == 0 {
            return Err(format!("nothing was left after {} events, {goal} more were to come", self.events).into());
        }
        self.events += turn.events;
        self.took += turn.took;
        Ok(())
    }

    fn per_second(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }
}

/// A round of `events` on each side, in turns of about equal size. A side gets
/// the number of events of its turn and may overshoot.
pub(crate) async fn in_turns(
    events: usize,
    turns: usize,
    mut ours: impl AsyncFnMut(usize) -> Outcome<Turn>,
    mut other: impl AsyncFnMut(usize) -> Outcome<Turn>,
) -> Outcome<Round> {
    let (mut first, mut second) = (Turn::default(), Turn::default());
    let goal = |side: &Turn| (events / turns).min(events - side.events.min(events));
    let mut turn = 0;
    while first.events < events || second.events < events {
        // The first side of a turn is affected by what the other left behind, so the sides alternate.
        for ours_now in [turn % 2 == 0, turn % 2 == 1] {
            let goal = goal(if ours_now { &first } else { &second });
            match (ours_now, goal) {
                (_, 0) => {}
                (true, goal) => first.add(goal, &mut ours).await?,
                (false, goal) => second.add(goal, &mut other).await?,
            }
        }
        turn += 1;
    }
    Ok(Round { ours_per_second: first.per_second(), other_per_second: second.per_second() })
}

/// A round of turns with `events` each, for sides that have a start-up phase or create their own events.
pub(crate) async fn turns_of(
    events: usize,
    turns: usize,
    mut ours: impl AsyncFnMut(usize) -> Outcome<Turn>,
    mut other: impl AsyncFnMut(usize) -> Outcome<Turn>,
) -> Outcome<Round> {
    let (mut first, mut second) = (Turn::default(), Turn::default());
    for _ in 0..turns {
        first.add(events, &mut ours).await?;
        second.add(events, &mut other).await?;
    }
    Ok(Round { ours_per_second: first.per_second(), other_per_second: second.per_second() })
}
