// SPDX-License-Identifier: GPL-2.0

//! Statistics of a few rounds. Values are finite; a number that there is no answer for is `None`.

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// How far the values lie apart, as a part of their median: (largest - smallest) / median. 0 of
/// a single value, `None` of nothing or about a median of 0.
pub fn spread(values: &[f64]) -> Option<f64> {
    let median = median(values)?;
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    (median != 0.0).then(|| (largest - smallest) / median)
}

/// `value` in units of `base`; `None` if that is 0.
pub fn ratio(value: f64, base: f64) -> Option<f64> {
    (base != 0.0).then(|| value / base)
}

/// The value at each `wanted` part (0 to 1) of the sorted values, by the nearest rank.
pub fn quantiles(values: &[f64], wanted: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    wanted
        .iter()
        .filter_map(|part| {
            let rank = (part * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn an_outlier_moves_no_median() {
        assert_eq!(median(&[100.0, 101.0, 102.0]), Some(101.0));
        assert_eq!(median(&[100.0, 101.0, 100_000.0]), Some(101.0));
    }

    #[test]
    fn spread_is_relative_to_the_median() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[7.0]), Some(0.0));
        assert_eq!(spread(&[90.0, 100.0, 120.0]), Some(0.3));
        assert_eq!(spread(&[0.0, 0.0, 1.0]), None);
    }

    #[test]
    fn ratio_to_nothing_is_none() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(0.0, 2.0), Some(0.0));
        assert_eq!(ratio(3.0, 0.0), None);
    }

    #[test]
    fn quantiles_by_the_nearest_rank() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            quantiles(&values, &[0.0, 0.01, 0.5, 0.99, 0.999, 1.0]),
            [1.0, 1.0, 50.0, 99.0, 100.0, 100.0]
        );
        assert_eq!(quantiles(&[], &[0.5]), Vec::<f64>::new());
        assert_eq!(quantiles(&[8.0], &[0.5, 1.0]), [8.0, 8.0]);
    }
}
