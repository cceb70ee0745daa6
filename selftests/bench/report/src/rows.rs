// SPDX-License-Identifier: GPL-2.0

//! The rounds of one subject in one workload, made one row. Ratios are taken within a round, whose
//! runs follow each other closely, and only then is their median taken: what drifts between rounds
//! drops out.

use crate::{
    record::{Run, Unit},
    stats,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Subjects that ratios are to.
pub const RAW: &str = "raw";
pub const IN_TREE: &str = "in-tree";

/// In the order in which reports name them; any other one comes behind.
pub const SUBJECTS: [&str; 8] = [
    RAW,
    "dm-linear",
    "ublk",
    IN_TREE,
    "rust_loop-auto",
    "rust_loop-always",
    "rust_loop-reads",
    "rust_loop-never",
];

/// A row of `results.json`. Values are medians of all rounds. `null`: there is none, as the other
/// subject was not measured, or a latency is beyond what was counted.
#[derive(Debug, Serialize)]
pub struct Row {
    pub bed: String,
    pub fs: String,
    pub mode: String,
    pub workload: String,
    pub subject: String,
    /// Commands per second.
    pub iops: f64,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
    /// Of all of the guest's CPUs.
    pub cpu_us_per_io: f64,
    pub kworkers: f64,
    pub kworkers_busy: f64,
    pub rounds: usize,
    /// Of `iops`: (largest - smallest) / median.
    pub spread: Option<f64>,
    /// Of `iops`, to the raw file and to the in-tree driver, each with its spread over the rounds.
    pub ratio_raw: Option<f64>,
    pub ratio_raw_spread: Option<f64>,
    pub ratio_intree: Option<f64>,
    pub ratio_intree_spread: Option<f64>,
    /// Of `p99_us` and of `cpu_us_per_io`, to the in-tree driver's.
    pub p99_ratio_intree: Option<f64>,
    pub cpu_ratio_intree: Option<f64>,
    /// Something else used the host's CPUs in one of the rounds: not to be relied on.
    pub busy: bool,
    /// The distribution of latencies: (per cent, microseconds).
    pub latency_us: Vec<(f64, f64)>,
}

/// By round.
type Rounds<'a> = BTreeMap<u32, &'a Run>;

fn rank(subject: &str) -> usize {
    SUBJECTS
        .iter()
        .position(|known| *known == subject)
        .unwrap_or(SUBJECTS.len())
}

fn at(run: &Run, part: f64) -> Option<f64> {
    run.latency
        .iter()
        .find(|(known, _)| (known - part).abs() < 1e-6)
        .map(|(_, us)| *us)
}

fn values(rounds: &Rounds<'_>, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    rounds.values().filter_map(|run| value(run)).collect()
}

/// Of each round that both have.
fn ratios(
    rounds: &Rounds<'_>,
    base: Option<&Rounds<'_>>,
    value: impl Fn(&Run) -> Option<f64>,
) -> Vec<f64> {
    let Some(base) = base else { return Vec::new() };
    rounds
        .iter()
        .filter_map(|(round, run)| stats::ratio(value(run)?, value(base.get(round)?)?))
        .collect()
}

fn row(unit: &Unit, subject: &str, subjects: &BTreeMap<&str, Rounds<'_>>) -> Option<Row> {
    let rounds = &subjects[subject];
    let (raw, in_tree) = (subjects.get(RAW), subjects.get(IN_TREE));
    let median = |value: fn(&Run) -> Option<f64>| stats::median(&values(rounds, value));
    let iops = |run: &Run| Some(run.iops);
    let cpu = |run: &Run| Some(run.cpu_us_per_io);
    let to_raw = ratios(rounds, raw, iops);
    let to_in_tree = ratios(rounds, in_tree, iops);
    let first = rounds.values().next()?;
    Some(Row {
        bed: unit.bed.clone(),
        fs: unit.fs.clone(),
        mode: unit.mode.clone(),
        workload: unit.workload.clone(),
        subject: subject.to_owned(),
        iops: median(iops)?,
        p50_us: median(|run| at(run, 50.0)),
        p99_us: median(|run| at(run, 99.0)),
        p999_us: median(|run| at(run, 99.9)),
        cpu_us_per_io: median(cpu)?,
        kworkers: median(|run| Some(f64::from(run.kworkers)))?,
        kworkers_busy: median(|run| Some(f64::from(run.kworkers_busy)))?,
        rounds: rounds.len(),
        spread: stats::spread(&values(rounds, iops)),
        ratio_raw: stats::median(&to_raw),
        ratio_raw_spread: stats::spread(&to_raw),
        ratio_intree: stats::median(&to_in_tree),
        ratio_intree_spread: stats::spread(&to_in_tree),
        p99_ratio_intree: stats::median(&ratios(rounds, in_tree, |run| at(run, 99.0))),
        cpu_ratio_intree: stats::median(&ratios(rounds, in_tree, cpu)),
        busy: rounds.values().any(|run| run.busy),
        latency_us: first
            .latency
            .iter()
            .filter_map(|(part, _)| {
                let us = stats::median(&values(rounds, |run| at(run, *part)))?;
                Some((*part, us))
            })
            .collect(),
    })
}

/// A row of each subject of each unit; units in order of their names, subjects in [`SUBJECTS`]'.
pub fn rows(runs: &[Run]) -> Vec<Row> {
    let mut units: BTreeMap<&Unit, BTreeMap<&str, Rounds<'_>>> = BTreeMap::new();
    for run in runs {
        units
            .entry(&run.unit)
            .or_default()
            .entry(&run.subject)
            .or_default()
            .insert(run.round, run);
    }
    units
        .iter()
        .flat_map(|(unit, subjects)| {
            let mut names: Vec<&str> = subjects.keys().copied().collect();
            names.sort_by_key(|name| rank(name));
            names
                .into_iter()
                .filter_map(|name| row(unit, name, subjects))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(subject: &str, round: u32, iops: f64) -> Run {
        Run {
            unit: Unit {
                bed: "2ms".into(),
                fs: "xfs".into(),
                mode: "dio".into(),
                workload: "randread-16".into(),
            },
            subject: subject.into(),
            round,
            busy: false,
            iops,
            latency: vec![(50.0, 1000.0 / iops), (99.0, 4000.0 / iops)],
            cpu_us_per_io: 2.0,
            kworkers: 10,
            kworkers_busy: round,
        }
    }

    #[test]
    fn ratios_are_of_equal_rounds() {
        // A machine that becomes twice as fast in round 1, and is as it was in round 2.
        let runs = [
            run("raw", 0, 100.0),
            run("in-tree", 0, 50.0),
            run("rust_loop-auto", 0, 75.0),
            run("raw", 1, 200.0),
            run("in-tree", 1, 100.0),
            run("rust_loop-auto", 1, 150.0),
            run("in-tree", 2, 50.0),
            run("rust_loop-auto", 2, 80.0),
        ];
        let rows = rows(&runs);
        let names: Vec<&str> = rows.iter().map(|row| row.subject.as_str()).collect();
        assert_eq!(names, ["raw", "in-tree", "rust_loop-auto"]);
        let auto = &rows[2];
        assert_eq!((auto.rounds, auto.iops), (3, 80.0));
        assert_eq!(auto.ratio_raw, Some(0.75));
        assert_eq!(auto.ratio_raw_spread, Some(0.0));
        assert_eq!(auto.ratio_intree, Some(1.5));
        assert_eq!(auto.kworkers_busy, 1.0);
        assert_eq!(auto.p999_us, None);
        assert_eq!(auto.latency_us.len(), 2);
        assert_eq!(rows[1].ratio_intree, Some(1.0));
        assert_eq!(rows[0].spread, Some(100.0 / 150.0));
    }

    #[test]
    fn without_the_other_there_is_no_ratio() {
        let rows = rows(&[run("rust_loop-auto", 0, 75.0), run("somebody", 0, 1.0)]);
        assert_eq!(rows[0].ratio_raw, None);
        assert_eq!(rows[0].ratio_intree_spread, None);
        assert_eq!(rows[1].subject, "somebody");
    }

    #[test]
    fn one_busy_round_marks_the_row() {
        let mut runs = [
            run("raw", 0, 1.0),
            run("raw", 1, 1.0),
            run("in-tree", 0, 1.0),
        ];
        runs[1].busy = true;
        let rows = rows(&runs);
        assert!(rows[0].busy);
        assert!(!rows[1].busy);
    }

    #[test]
    fn a_repeated_round_counts_once() {
        let rows = rows(&[run("raw", 0, 1.0), run("raw", 0, 3.0)]);
        assert_eq!((rows[0].rounds, rows[0].iops), (1, 3.0));
    }
}
