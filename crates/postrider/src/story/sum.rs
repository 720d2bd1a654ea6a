//! What effects add up to. Decimal numbers are added as they are written: no digit is rounded.

use std::collections::BTreeMap;

use super::StoryEvent;
use crate::status::ConsumerState;

/// Digits after the point, and in all, of a number that is added up; i128 has room for the sum of many.
const DECIMALS: usize = 9;
const DIGITS: usize = 32;

/// What an asset has gained or lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Its name.
    pub asset: String,
    /// The sum of what has happened, with the digits of the longest number; `None` if a delta is no number.
    pub net: Option<String>,
    /// Whether the sum is 0.
    pub balanced: bool,
}

/// The assets of a story, in the order of their first effect. What has not happened does not count yet.
pub(super) fn assets(events: &[StoryEvent]) -> Vec<Asset> {
    let mut sums: BTreeMap<&str, (usize, Option<i128>, usize)> = BTreeMap::new();
    for told in events.iter().flat_map(|event| &event.effects) {
        let Some((asset, delta)) = told.effect.as_ref().and_then(|one| one.asset.as_deref().zip(one.delta.as_deref()))
        else {
            continue;
        };
        let place = sums.len();
        let (_, sum, decimals) = sums.entry(asset).or_insert((place, Some(0), 0));
        let number = units(delta);
        *decimals = number.map_or(0, |(_, decimals)| decimals).max(*decimals);
        if told.state == ConsumerState::Ok && !told.again {
            *sum = sum.and_then(|sum| sum.checked_add(number?.0));
        }
    }
    let mut assets: Vec<_> = sums.into_iter().collect();
    assets.sort_by_key(|(_, (place, ..))| *place);
    let asset = |(asset, (_, sum, decimals)): (&str, (usize, Option<i128>, usize))| Asset {
        asset: asset.into(),
        net: sum.map(|sum| written(sum, decimals)),
        balanced: sum == Some(0),
    };
    assets.into_iter().map(asset).collect()
}

/// The number at the beginning of a text, in units of 10^-9, and its digits after the point.
fn units(delta: &str) -> Option<(i128, usize)> {
    let text = delta.trim_start();
    let (negative, text) = match text.strip_prefix(['-', '−']) {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (whole, fraction) = text[..end].split_once('.').unwrap_or((&text[..end], ""));
    if whole.is_empty() || fraction.contains('.') || fraction.len() > DECIMALS || whole.len() + DECIMALS > DIGITS {
        return None;
    }
    let digits = format!("{whole}{fraction:0<DECIMALS$}");
    let units: i128 = digits.parse().ok()?;
    Some((if negative { -units } else { units }, fraction.len()))
}

fn written(units: i128, decimals: usize) -> String {
    let digits = format!("{:0>1$}", units.unsigned_abs(), DECIMALS + 1);
    let (whole, fraction) = digits.split_at(digits.len() - DECIMALS);
    let sign = match units {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    let point = if decimals == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{}", &fraction[..decimals])
}

#[cfg(test)]
mod tests {
    use super::{units, written};

    /// G.11: sums keep every digit, and what is no number is not taken for 0.
    #[test]
    fn numbers_are_added_as_they_are_written() {
        let net = |deltas: &[&str]| {
            let numbers: Option<Vec<_>> = deltas.iter().map(|delta| units(delta)).collect();
            let numbers = numbers?;
            let decimals = numbers.iter().map(|(_, decimals)| *decimals).max()?;
            Some(written(numbers.iter().map(|(units, _)| units).sum(), decimals))
        };
        let is = |deltas: &[&str], expected: &str| assert_eq!(net(deltas).as_deref(), Some(expected), "{deltas:?}");
        is(&["-40.00 frozen", "0 paid", "+40.00"], "0.00");
        is(&["-200", "200", "129"], "+129");
        is(&["−1", "-1"], "-2");
        is(&["0.1", "0.2"], "+0.3");
        is(&["-9223372036854775807"], "-9223372036854775807");
        is(&["-0.05"], "-0.05");
        for wrong in ["", "many", "-", ".5", "1.2.3", "0.1234567890", "999999999999999999999999"] {
            assert_eq!(units(wrong), None, "{wrong}");
        }
    }
}
