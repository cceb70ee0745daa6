// SPDX-License-Identifier: GPL-2.0

//! The report as one HTML file that needs no other.

use crate::{markdown, plot::Plot, Results};
use std::fmt::Write as _;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rust_loop beside its peers</title>
<style>
body { font: 14px sans-serif; margin: 2em; max-width: 100em }
table { border-collapse: collapse; font-size: 12px }
th, td { border-bottom: 1px solid #ddd; padding: 2px 8px; text-align: right; white-space: nowrap }
th { position: sticky; top: 0; background: #fff }
td:nth-child(-n+5), th:nth-child(-n+5) { text-align: left }
tr.first td { border-top: 2px solid #999 }
tr.busy { color: #999 }
tr.ours td:nth-child(5) { font-weight: bold }
dl { display: grid; grid-template-columns: max-content auto; gap: 2px 1em }
dd { margin: 0 }
svg { max-width: 100%; height: auto }
</style></head><body>
<h1>rust_loop beside its peers</h1>
";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The whole of `index.html`: plots of ratios, the table, the distributions of latencies folded.
pub fn document(results: &Results, plots: &[Plot]) -> String {
    let mut text = String::from(HEAD);
    // Writing to a string does not fail.
    if results.rows.iter().any(|row| row.busy) {
        text.push_str(
            "<p><strong>Measured on a busy machine: marked rows mean nothing.</strong></p>\n",
        );
    }
    text.push_str("<dl>\n");
    for (key, value) in markdown::machine(results) {
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(key), escape(&value));
    }
    text.push_str("</dl>\n");
    for sentence in markdown::LEGEND {
        let _ = writeln!(text, "<p>{}</p>", escape(sentence));
    }
    for plot in plots.iter().filter(|plot| !plot.detail) {
        let _ = writeln!(text, "<h2>{}</h2>\n{}", escape(&plot.title), plot.svg);
    }
    text.push_str("<h2>All figures</h2>\n<table><tr>");
    for column in markdown::COLUMNS {
        let _ = write!(text, "<th>{}</th>", escape(column));
    }
    text.push_str("</tr>\n");
    let mut last = None;
    for row in &results.rows {
        let unit = (&row.bed, &row.fs, &row.mode, &row.workload);
        let mut classes = Vec::new();
        if last != Some(unit) {
            classes.push("first");
        }
        if row.busy {
            classes.push("busy");
        }
        if row.subject.starts_with("rust_loop") {
            classes.push("ours");
        }
        last = Some(unit);
        let _ = write!(text, "<tr class=\"{}\">", classes.join(" "));
        for cell in markdown::cells(row) {
            let _ = write!(text, "<td>{}</td>", escape(&cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n<h2>Latency</h2>\n");
    for plot in plots.iter().filter(|plot| plot.detail) {
        let _ = writeln!(
            text,
            "<details><summary>{}</summary>{}</details>",
            escape(&plot.title),
            plot.svg
        );
    }
    text.push_str("</body></html>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escape("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
    }
}
