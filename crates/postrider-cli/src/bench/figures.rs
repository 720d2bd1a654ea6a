//! The figures of a run, as JSON and as a picture that fits the terminal.

use std::time::Duration;

use serde_json::{Value, json};

use super::Bench;
use crate::output::{self, Format, terminal_width};
use crate::print_data;

/// The upper bounds of the bars, in milliseconds: one, two, five, ten and so on.
const BOUNDS: [u64; 15] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, u64::MAX];
/// The width of the picture in a file, and the least width of its longest bar.
const WIDTH: usize = 80;
const BAR: usize = 10;

/// Latencies of one kind, sorted, and how long all of it took.
struct Part {
    latencies: Vec<Duration>,
    lasted: Duration,
}

/// What was measured.
pub(super) struct Figures {
    enqueue: Part,
    deliver: Part,
}

impl Figures {
    pub(super) fn new(enqueue: (Vec<Duration>, Duration), deliver: (Vec<Duration>, Duration)) -> Self {
        Self { enqueue: Part::new(enqueue), deliver: Part::new(deliver) }
    }

    pub(super) fn print(&self, format: Format, store: &str, bench: &Bench) {
        if format != Format::Table {
            return output::one(format, &self.json(store, bench));
        }
        for (name, part) in [("enqueue", &self.enqueue), ("deliver", &self.deliver)] {
            print_data(part.line(name));
        }
        let width = terminal_width().map_or(WIDTH, usize::from);
        print_data("from the write to the delivery:");
        self.deliver.picture(width).iter().for_each(print_data);
    }

    fn json(&self, store: &str, bench: &Bench) -> Value {
        let bars = self.deliver.bars();
        let bars = bars.iter().map(|(bound, count)| match bound {
            &u64::MAX => json!({ "deliveries": count }),
            bound => json!({ "upToMs": bound, "deliveries": count }),
        });
        json!({
            "store": store,
            "payloadBytes": bench.payload_bytes,
            "concurrency": bench.concurrency,
            "enqueue": self.enqueue.json(),
            "deliver": self.deliver.json(),
            "latencies": bars.collect::<Vec<_>>(),
        })
    }
}

impl Part {
    fn new((mut latencies, lasted): (Vec<Duration>, Duration)) -> Self {
        latencies.sort_unstable();
        Self { latencies, lasted }
    }

    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.lasted.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The latency that this share of all does not exceed, in milliseconds.
    fn percentile(&self, share: f64) -> f64 {
        let at = (self.latencies.len() as f64 * share).ceil() as usize;
        let latency = self.latencies.get(at.saturating_sub(1)).copied().unwrap_or_default();
        (latency.as_secs_f64() * 1e6).round() / 1e3
    }

    fn json(&self) -> Value {
        json!({
            "events": self.latencies.len(),
            "seconds": self.lasted.as_secs_f64(),
            "perSecond": self.per_second().round(),
            "p50Ms": self.percentile(0.5),
            "p95Ms": self.percentile(0.95),
            "p99Ms": self.percentile(0.99),
            "maxMs": self.percentile(1.0),
        })
    }

    fn line(&self, name: &str) -> String {
        let [p50, p95, p99, most] = [0.5, 0.95, 0.99, 1.0].map(|share| self.percentile(share));
        let (events, rate) = (self.latencies.len(), self.per_second());
        format!("{name}  {events} events  {rate:.0}/s  p50 {p50:.1} ms  p95 {p95:.1}  p99 {p99:.1}  max {most:.1}")
    }

    /// How many latencies are under each bound and over the one before, without empty ends.
    fn bars(&self) -> Vec<(u64, usize)> {
        let mut least = Duration::ZERO;
        let mut bars = Vec::new();
        for bound in BOUNDS {
            let most = Duration::from_millis(bound);
            let is_in = |latency: &&Duration| **latency <= most && (**latency > least || least.is_zero());
            bars.push((bound, self.latencies.iter().filter(is_in).count()));
            least = most;
        }
        let filled = |bar: &(u64, usize)| bar.1 > 0;
        let begin = bars.iter().position(filled).unwrap_or(bars.len());
        let end = bars.iter().rposition(filled).map_or(begin, |last| last + 1);
        bars[begin..end].to_vec()
    }

    fn picture(&self, width: usize) -> Vec<String> {
        let bars = self.bars();
        let most = bars.iter().map(|bar| bar.1).max().unwrap_or_default().max(1);
        let counts = most.to_string().len();
        let label = |bound: u64| match bound {
            u64::MAX => "more".to_owned(),
            bound => format!("≤ {bound} ms"),
        };
        let labels = bars.iter().map(|bar| label(bar.0).chars().count()).max().unwrap_or_default();
        let room = width.saturating_sub(labels + counts + 4).max(BAR);
        let line = |(bound, count): &(u64, usize)| {
            let length = (count * room).div_ceil(most);
            format!("{:>labels$}  {count:>counts$}  {}", label(*bound), "█".repeat(length))
        };
        bars.iter().map(|bar| line(bar).trim_end().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(millis: &[u64]) -> Part {
        Part::new((millis.iter().map(|n| Duration::from_millis(*n)).collect(), Duration::from_secs(2)))
    }

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let hundred: Vec<u64> = (1..=100).rev().collect();
        let part = part(&hundred);
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(|share| part.percentile(share)), [50.0, 95.0, 99.0, 100.0]);
        assert_eq!(part.per_second(), 50.0);
        assert_eq!(self::part(&[]).percentile(0.5), 0.0);
    }

    #[test]
    fn a_picture_fits_its_width() {
        let part = part(&[0, 2, 2, 3, 30_000]);
        let bars = part.bars();
        assert_eq!((bars.first(), bars.last()), (Some(&(1, 1)), Some(&(u64::MAX, 1))));
        assert_eq!(bars.iter().map(|bar| bar.1).sum::<usize>(), 5, "each is in one bar: {bars:?}");
        for width in [40, 80] {
            let picture = part.picture(width);
            assert!(picture.iter().all(|line| line.chars().count() <= width), "{picture:#?}");
            assert_eq!(picture.iter().map(|line| line.chars().count()).max(), Some(width), "{picture:#?}");
        }
        assert!(self::part(&[]).picture(80).is_empty());
    }
}
