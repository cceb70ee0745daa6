// SPDX-License-Identifier: GPL-2.0

//! Rows as SVG: bars of ratios, a plot a bed and file system, and the distributions of latencies, a
//! plot a workload.

use crate::rows::{Row, IN_TREE, RAW, SUBJECTS};
use plotters::prelude::*;
use std::{error::Error, fmt::Display};

/// A plot, and what it is called as a file.
pub struct Plot {
    pub name: String,
    pub title: String,
    pub svg: String,
    /// One of many, to be looked at when something is to be found out.
    pub detail: bool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const WIDTH: u32 = 900;
const BAR: u32 = 11;
const LABELS: u32 = 190;
/// Bars end there; what is longer has its number all the same.
const LONGEST_RATIO: f64 = 4.0;

/// That of a subject, everywhere the same.
fn color(subject: &str) -> RGBColor {
    const COLORS: [RGBColor; SUBJECTS.len()] = [
        RGBColor(120, 120, 120),
        RGBColor(190, 170, 110),
        RGBColor(150, 110, 190),
        RGBColor(60, 110, 180),
        RGBColor(200, 60, 40),
        RGBColor(240, 150, 60),
        RGBColor(90, 170, 90),
        RGBColor(110, 190, 200),
    ];
    SUBJECTS
        .iter()
        .zip(COLORS)
        .find(|(known, _)| **known == subject)
        .map_or(BLACK, |(_, color)| color)
}

/// The backend's errors have a lifetime, these do not.
fn text<E: Display>(error: E) -> Box<dyn Error> {
    error.to_string().into()
}

/// Runs of neighbours that agree in `key`.
fn groups<'a, K: PartialEq>(rows: &[&'a Row], key: impl Fn(&Row) -> K) -> Vec<Vec<&'a Row>> {
    rows.chunk_by(|a, b| key(a) == key(b))
        .map(<[&Row]>::to_vec)
        .collect()
}

/// Horizontal bars: the ratio of IOPS to those of `base`, workload by workload.
fn bars(title: &str, rows: &[&Row], ratio: fn(&Row) -> Option<f64>) -> Result<String> {
    let workloads = groups(rows, |row| (row.workload.clone(), row.mode.clone()));
    let shown: Vec<Vec<(&Row, f64)>> = workloads
        .iter()
        .map(|rows| {
            rows.iter()
                .filter_map(|row| Some((*row, ratio(row)?)))
                .collect()
        })
        .collect();
    // A line of space behind each workload; a title and a scale around all.
    let lines: usize = shown.iter().map(|rows| rows.len() + 1).sum();
    let height = u32::try_from(lines)? * BAR + 80;
    let longest = shown
        .iter()
        .flatten()
        .fold(1.25, |longest: f64, (_, ratio)| longest.max(*ratio))
        .min(LONGEST_RATIO);

    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(text)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin_right(60)
            .x_label_area_size(30)
            .y_label_area_size(LABELS)
            .build_cartesian_2d(0.0..longest, -(lines as f64)..0.0)
            .map_err(text)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_max_light_lines(1)
            .x_label_formatter(&|ratio| format!("{ratio:.2}"))
            .draw()
            .map_err(text)?;
        let small = ("sans-serif", 10).into_font();
        let mut line = 0.0;
        for rows in &shown {
            if let Some((first, _)) = rows.first() {
                let (x, y) = chart.backend_coord(&(0.0, line));
                let name = format!("{} ({})", first.workload, first.mode);
                area.draw(&Text::new(
                    name,
                    (x - i32::try_from(LABELS)? + 5, y),
                    ("sans-serif", 12).into_font(),
                ))
                .map_err(text)?;
            }
            for (row, ratio) in rows {
                let end = ratio.min(longest);
                chart
                    .draw_series([Rectangle::new(
                        [(0.0, line - 0.05), (end, line - 0.95)],
                        color(&row.subject).filled(),
                    )])
                    .map_err(text)?;
                let (x, y) = chart.backend_coord(&(end, line));
                let label = format!("{ratio:.2} {}", if row.busy { "(busy)" } else { "" });
                area.draw(&Text::new(label, (x + 3, y), small.clone()))
                    .map_err(text)?;
                line -= 1.0;
            }
            line -= 1.0;
        }
        chart
            .draw_series(LineSeries::new(
                [(1.0, 0.0), (1.0, -(lines as f64))],
                BLACK.stroke_width(1),
            ))
            .map_err(text)?;
        legend(&area, rows, height)?;
        area.present().map_err(text)?;
    }
    Ok(svg)
}

/// Colours and names of the subjects, in a line at the foot of `area`.
fn legend(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    rows: &[&Row],
    height: u32,
) -> Result<()> {
    let y = i32::try_from(height)? - 12;
    let mut x = 10;
    for subject in SUBJECTS {
        if !rows.iter().any(|row| row.subject == subject) {
            continue;
        }
        area.draw(&Rectangle::new(
            [(x, y), (x + 9, y + 9)],
            color(subject).filled(),
        ))
        .map_err(text)?;
        area.draw(&Text::new(
            subject,
            (x + 12, y),
            ("sans-serif", 11).into_font(),
        ))
        .map_err(text)?;
        x += 24 + 7 * i32::try_from(subject.len())?;
    }
    Ok(())
}

/// The part of all commands that took no longer than a time, on a logarithmic scale.
fn distribution(title: &str, rows: &[&Row]) -> Result<String> {
    const HEIGHT: u32 = 380;
    let times = || {
        rows.iter()
            .flat_map(|row| &row.latency_us)
            .map(|(_, us)| *us)
    };
    // A logarithmic scale has no 0.
    let shortest = times().fold(f64::MAX, f64::min).max(0.1);
    let longest = times().fold(f64::MIN, f64::max).max(shortest * 10.0);

    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE).map_err(text)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(8)
            .margin_bottom(24)
            .x_label_area_size(36)
            .y_label_area_size(50)
            .build_cartesian_2d((shortest..longest).log_scale(), 0.0..100.0)
            .map_err(text)?;
        chart
            .configure_mesh()
            .max_light_lines(1)
            .x_label_formatter(&|us| {
                if *us < 10.0 {
                    format!("{us:.1}")
                } else {
                    format!("{us:.0}")
                }
            })
            .y_label_formatter(&|part| format!("{part:.0}"))
            .x_desc("µs, from submission to completion")
            .y_desc("% of commands")
            .draw()
            .map_err(text)?;
        for row in rows {
            chart
                .draw_series(LineSeries::new(
                    row.latency_us.iter().map(|(part, us)| (us.max(0.1), *part)),
                    color(&row.subject).stroke_width(2),
                ))
                .map_err(text)?;
        }
        legend(&area, rows, HEIGHT)?;
        area.present().map_err(text)?;
    }
    Ok(svg)
}

/// All plots: those of ratios first.
pub fn plots(rows: &[Row]) -> Result<Vec<Plot>> {
    let rows: Vec<&Row> = rows.iter().collect();
    let mut plots = Vec::new();
    for rows in groups(&rows, |row| (row.bed.clone(), row.fs.clone())) {
        let (bed, fs) = (&rows[0].bed, &rows[0].fs);
        for (base, ratio) in [
            (RAW, (|row| row.ratio_raw) as fn(&Row) -> Option<f64>),
            (IN_TREE, |row| row.ratio_intree),
        ] {
            if rows.iter().all(|row| ratio(row).is_none()) {
                continue;
            }
            let title = format!("{bed}, {fs}: IOPS, in units of {base}");
            plots.push(Plot {
                name: format!("ratio-{base}-{bed}-{fs}"),
                svg: bars(&title, &rows, ratio)?,
                title,
                detail: false,
            });
        }
    }
    for rows in groups(&rows, |row| {
        (row.bed.clone(), row.fs.clone(), row.workload.clone())
    }) {
        if rows.iter().all(|row| row.latency_us.is_empty()) {
            continue;
        }
        let Row {
            bed, fs, workload, ..
        } = rows[0];
        let title = format!("{bed}, {fs}, {workload}: latency");
        plots.push(Plot {
            name: format!("latency-{bed}-{fs}-{workload}"),
            svg: distribution(&title, &rows)?,
            title,
            detail: true,
        });
    }
    Ok(plots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &str, subject: &str, ratio: Option<f64>) -> Row {
        Row {
            bed: "2ms".into(),
            fs: "xfs".into(),
            mode: "dio".into(),
            workload: workload.into(),
            subject: subject.into(),
            iops: 1.0,
            p50_us: None,
            p99_us: None,
            p999_us: None,
            cpu_us_per_io: 1.0,
            kworkers: 1.0,
            kworkers_busy: 1.0,
            rounds: 1,
            spread: None,
            ratio_raw: None,
            ratio_raw_spread: None,
            ratio_intree: ratio,
            ratio_intree_spread: None,
            p99_ratio_intree: None,
            cpu_ratio_intree: None,
            busy: false,
            latency_us: vec![(50.0, 0.0), (100.0, 12.0)],
        }
    }

    #[test]
    fn without_latencies_there_is_no_distribution() {
        let mut row = row("randread", IN_TREE, Some(1.0));
        row.latency_us.clear();
        let names: Vec<String> = plots(&[row]).unwrap().into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["ratio-in-tree-2ms-xfs"]);
    }

    #[test]
    fn a_plot_for_each_base_there_is_and_for_each_workload() {
        let rows = [
            row("randread", IN_TREE, Some(1.0)),
            row("randread", "rust_loop-auto", Some(1.7)),
            row("fsync", IN_TREE, Some(1.0)),
        ];
        let plots = plots(&rows).unwrap();
        let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "ratio-in-tree-2ms-xfs",
                "latency-2ms-xfs-randread",
                "latency-2ms-xfs-fsync"
            ]
        );
        assert!(plots[0].svg.contains("1.70"));
        assert!(plots[0].svg.contains("fsync (dio)"));
        assert!(!plots[0].svg.contains("dm-linear"));
        assert!(plots.iter().all(|plot| plot.svg.ends_with("</svg>\n")));
    }
}
