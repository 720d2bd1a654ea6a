//! The result of a run: a table, a JSON file, and whether every target was met.

use serde::Serialize;

use crate::Outcome;

/// One comparison: our rate, and the rate of the other side.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Round {
    pub(crate) ours_per_second: f64,
    pub(crate) other_per_second: f64,
}

impl Round {
    fn ratio(self) -> f64 {
        self.ours_per_second / self.other_per_second
    }
}

/// One scenario. Without a target it is only reported.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) target: Option<f64>,
    pub(crate) rounds: Vec<Round>,
}

/// The percentiles of a set of durations.
pub(crate) struct Latencies {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Latencies {
    pub(crate) fn of(mut waits: Vec<std::time::Duration>) -> Self {
        waits.sort();
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1_000.0;
        Self { p50: at(0.5), p99: at(0.99) }
    }
}

/// A measurement with an upper limit.
#[derive(Serialize)]
struct Limited {
    name: String,
    unit: &'static str,
    measured: f64,
    limit: Option<f64>,
    met: bool,
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    ratio: f64,
    target: Option<f64>,
    met: bool,
    rounds: Vec<Round>,
}

pub(crate) struct Report {
    smoke: bool,
    lines: Vec<Line>,
    limited: Vec<Limited>,
}

impl Report {
    pub(crate) fn new(smoke: bool) -> Self {
        println!("{:<50} {:>12} {:>12} {:>7} {:>7}", "scenario", "ours /s", "other /s", "ratio", "target");
        Self { smoke, lines: Vec::new(), limited: Vec::new() }
    }

    /// Adds a scenario. The round with the median ratio represents it.
    pub(crate) fn add(&mut self, figure: Figure) {
        let mut sorted = figure.rounds.clone();
        sorted.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let median = sorted[sorted.len() / 2];
        let target = figure.target.map(|target| if self.smoke { target / 2.0 } else { target });
        let met = target.is_none_or(|target| median.ratio() >= target);
        println!(
            "{:<50} {:>12.0} {:>12.0} {:>7.2} {:>7} {}",
            figure.name,
            median.ours_per_second,
            median.other_per_second,
            median.ratio(),
            target.map_or_else(|| "-".into(), |target| format!("{target:.2}")),
            if met { "" } else { "  BELOW TARGET" },
        );
        self.lines.push(Line { name: figure.name, ratio: median.ratio(), target, met, rounds: figure.rounds });
    }

    /// Adds a measurement with an upper limit. A smoke run only prints it: an absolute number depends on the machine
    /// and its load, unlike a ratio.
    pub(crate) fn limit(&mut self, name: String, unit: &'static str, measured: f64, limit: f64) {
        let met = self.smoke || measured <= limit;
        let below = if met { "" } else { "  ABOVE LIMIT" };
        let (word, shown) = if self.smoke { ("", "-".to_owned()) } else { ("at most", limit.to_string()) };
        println!("{name:<50} {measured:>12.2} {unit:>12} {word:>7} {shown:>7} {below}");
        let limit = (!self.smoke).then_some(limit);
        self.limited.push(Limited { name, unit, measured, limit, met });
    }

    /// Writes the JSON file. Returns false if a target was missed.
    pub(crate) fn finish(self) -> Outcome<bool> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("out");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(if self.smoke { "smoke.json" } else { "bench.json" });
        std::fs::write(
            &file,
            serde_json::to_string_pretty(&serde_json::json!({ "ratios": self.lines, "limits": self.limited }))?,
        )?;
        let missed = self.lines.iter().filter(|line| !line.met).count()
            + self.limited.iter().filter(|limited| !limited.met).count();
        println!(
            "\n{} scenarios, {missed} below target; bench/out/{}",
            self.lines.len() + self.limited.len(),
            file.file_name().unwrap_or_default().display()
        );
        Ok(missed == 0)
    }
}
