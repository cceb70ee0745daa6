// SPDX-License-Identifier: GPL-2.0

//! The report as Markdown.

use crate::{plot::Plot, rows::Row, Results};
use std::fmt::Write as _;

/// Of the table, in this document and in the other one.
pub const COLUMNS: [&str; 16] = [
    "bed",
    "fs",
    "mode",
    "workload",
    "subject",
    "IOPS",
    "spread",
    "to raw",
    "to in-tree",
    "±",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "CPU µs/IO",
    "kworkers",
    "rounds",
];

/// A number as wide as it needs to be; a dash where there is none.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.0} %", value * 100.0))
}

/// The cells of a row, in the order of [`COLUMNS`].
pub fn cells(row: &Row) -> [String; 16] {
    [
        row.bed.clone(),
        row.fs.clone(),
        row.mode.clone(),
        row.workload.clone(),
        format!("{}{}", row.subject, if row.busy { " (busy)" } else { "" }),
        number(Some(row.iops)),
        percent(row.spread),
        number(row.ratio_raw),
        number(row.ratio_intree),
        percent(row.ratio_intree_spread),
        number(row.p50_us),
        number(row.p99_us),
        number(row.p999_us),
        number(Some(row.cpu_us_per_io)),
        format!("{:.0} of {:.0}", row.kworkers_busy, row.kworkers),
        row.rounds.to_string(),
    ]
}

/// What has to be known to read the table, a sentence each.
pub const LEGEND: [&str; 4] = [
    "Figures are medians of the rounds. Spread: (largest - smallest) / median.",
    "Ratios are of IOPS, taken within each round; ± is the spread of the ratio to the in-tree driver.",
    "Latency is from submission to completion. CPU is that of the whole guest.",
    "kworkers: busy or blocked, of all. A row marked busy was measured while something else used the host: it means nothing.",
];

/// `key: value` of the machine, in order of keys.
pub fn machine(results: &Results) -> Vec<(&str, String)> {
    let facts = results.machine.as_object();
    facts
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            (key.as_str(), text)
        })
        .collect()
}

/// The whole of `report.md`.
pub fn document(results: &Results, plots: &[Plot]) -> String {
    let mut text = String::from("# rust_loop beside its peers\n\n");
    // Writing to a string does not fail.
    for (key, value) in machine(results) {
        let _ = writeln!(text, "- {key}: {value}");
    }
    let _ = writeln!(text, "\n{}\n", LEGEND.join("\n"));
    let _ = writeln!(text, "| {} |", COLUMNS.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(COLUMNS.len()));
    for row in &results.rows {
        let _ = writeln!(text, "| {} |", cells(row).join(" | "));
    }
    for plot in plots {
        let _ = writeln!(
            text,
            "\n## {}\n\n![{}]({}.svg)",
            plot.title, plot.title, plot.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_more() {
        assert_eq!(number(None), "-");
        assert_eq!(number(Some(0.7349)), "0.73");
        assert_eq!(number(Some(12.34)), "12.3");
        assert_eq!(number(Some(12345.6)), "12346");
        assert_eq!(percent(Some(0.049)), "5 %");
    }
}
