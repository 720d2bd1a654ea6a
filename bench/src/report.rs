//! What a run found: a table for people, JSON for programs, and whether every target was met.

use serde::Serialize;

use crate::Outcome;

/// One neighbour pair: how fast ours was, and what it is compared with.
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

/// One scenario. Without a target it is there to be seen.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) target: Option<f64>,
    pub(crate) rounds: Vec<Round>,
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
}

impl Report {
    pub(crate) fn new(smoke: bool) -> Self {
        println!("{:<50} {:>12} {:>12} {:>7} {:>7}", "scenario", "ours /s", "other /s", "ratio", "target");
        Self { smoke, lines: Vec::new() }
    }

    /// The round with the median ratio stands for its scenario.
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

    /// Writes the JSON. False: a target was missed.
    pub(crate) fn finish(self) -> Outcome<bool> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("out");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(if self.smoke { "smoke.json" } else { "bench.json" });
        std::fs::write(&file, serde_json::to_string_pretty(&self.lines)?)?;
        let missed = self.lines.iter().filter(|line| !line.met).count();
        println!(
            "\n{} scenarios, {missed} below target; bench/out/{}",
            self.lines.len(),
            file.file_name().unwrap_or_default().display()
        );
        Ok(missed == 0)
    }
}
