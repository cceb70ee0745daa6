// SPDX-License-Identifier: GPL-2.0

//! One run, as the guest wrote it and `tools/bench` took it down: a line of JSON. What fio says is
//! reduced to what rows are made of.

use crate::stats;
use serde::Deserialize;
use std::collections::BTreeMap;

/// CPUs that the host may lose to others, or have stolen, while a run counts as undisturbed.
const BUSY_LIMIT: f64 = 0.1;

/// The job of fio that a row tells of, see `selftests/bench/workloads`.
const MEASURED: &str = "measured";

/// Points of the distribution of [`Devices`]; those of fio are chosen in `kinds.sh`.
const PERCENTILES: [f64; 11] = [
    1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0,
];

/// What was measured, where: the same for all rounds.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Unit {
    pub bed: String,
    pub fs: String,
    pub mode: String,
    pub workload: String,
}

/// One run of one subject.
#[derive(Debug)]
pub struct Run {
    pub unit: Unit,
    pub subject: String,
    pub round: u32,
    /// Something else used the host's CPUs.
    pub busy: bool,
    /// Commands per second.
    pub iops: f64,
    /// Latency from submission to completion: (per cent, microseconds), ascending. Empty if it was
    /// not measured.
    pub latency: Vec<(f64, f64)>,
    /// Microseconds that the guest's CPUs were not idle, per command, be it of any job.
    pub cpu_us_per_io: f64,
    /// Kernel threads of workqueues: all, and those at work or blocked in it.
    pub kworkers: u32,
    pub kworkers_busy: u32,
}

#[derive(Deserialize)]
struct Line {
    busy: bool,
    other: f64,
    steal: f64,
    run: Told,
}

#[derive(Deserialize)]
struct Told {
    bed: String,
    fs: String,
    mode: String,
    workload: String,
    subject: String,
    round: u32,
    cpus: u32,
    kworkers: u32,
    kworkers_busy: u32,
    /// Seconds of uptime and the first line of /proc/stat.
    before: String,
    after: String,
    #[serde(flatten)]
    output: Output,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Output {
    Fio(Fio),
    Devices(Devices),
}

#[derive(Deserialize)]
struct Fio {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i32,
    /// With unified_rw_reporting.
    mixed: Direction,
}

#[derive(Deserialize)]
struct Direction {
    iops: f64,
    total_ios: u64,
    #[serde(default)]
    lat_ns: Latency,
}

#[derive(Default, Deserialize)]
struct Latency {
    /// By per cent, as fio prints them: "99.900000". Not there if fio was told not to measure them.
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// What devices.py prints.
#[derive(Deserialize)]
struct Devices {
    seconds: f64,
    steps_us: Vec<f64>,
}

/// Why a line is no run.
#[derive(Debug)]
pub enum Malformed {
    Json(serde_json::Error),
    /// fio ran no job [`MEASURED`].
    NoJob,
    /// A job of fio ended with this errno.
    Failed(i32),
    /// Nothing was done.
    NoCommand,
    /// This is not uptime and CPU times, or they do not advance.
    CpuTimes(String),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::NoJob => write!(f, "no job named {MEASURED}"),
            Self::Failed(errno) => write!(f, "a job failed with errno {errno}"),
            Self::NoCommand => write!(f, "no command was carried out"),
            Self::CpuTimes(text) => write!(f, "no CPU times: {text}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// (seconds of uptime, seconds that CPUs were idle) of "UPTIME cpu USER NICE SYSTEM IDLE IOWAIT ...".
fn cpu_times(text: &str) -> Option<(f64, f64)> {
    // Of a kernel for user space: USER_HZ, whatever CONFIG_HZ is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let words: Vec<&str> = text.split_whitespace().collect();
    if *words.get(1)? != "cpu" {
        return None;
    }
    let idle: f64 = words.get(5)?.parse().ok()?;
    let iowait: f64 = words.get(6)?.parse().ok()?;
    Some((words[0].parse().ok()?, (idle + iowait) / TICKS_PER_SECOND))
}

/// Microseconds of CPU time that were used between the two: what was not idle. Idle time is kept
/// exactly, while the other columns are sampled by the tick.
fn cpu_used_us(before: &str, after: &str, cpus: u32) -> Result<f64, Malformed> {
    let times = |text: &str| cpu_times(text).ok_or_else(|| Malformed::CpuTimes(text.to_owned()));
    let (begin, idle_begin) = times(before)?;
    let (end, idle_end) = times(after)?;
    if end <= begin {
        return Err(Malformed::CpuTimes(format!(
            "uptime goes from {begin} to {end}"
        )));
    }
    Ok((((end - begin) * f64::from(cpus) - (idle_end - idle_begin)) * 1e6).max(0.0))
}

/// What the measured commands came to.
struct Outcome {
    iops: f64,
    latency: Vec<(f64, f64)>,
    /// Of all jobs.
    commands: f64,
}

fn outcome(output: &Output) -> Result<Outcome, Malformed> {
    match output {
        Output::Fio(fio) => {
            if let Some(job) = fio.jobs.iter().find(|job| job.error != 0) {
                return Err(Malformed::Failed(job.error));
            }
            let job = fio
                .jobs
                .iter()
                .find(|job| job.jobname == MEASURED)
                .ok_or(Malformed::NoJob)?;
            let mut latency: Vec<(f64, f64)> = job
                .mixed
                .lat_ns
                .percentile
                .iter()
                .filter_map(|(part, ns)| Some((part.parse().ok()?, ns / 1e3)))
                .collect();
            latency.sort_by(|a, b| a.0.total_cmp(&b.0));
            let all: u64 = fio.jobs.iter().map(|job| job.mixed.total_ios).sum();
            Ok(Outcome {
                iops: job.mixed.iops,
                latency,
                commands: all as f64,
            })
        }
        Output::Devices(devices) => {
            let count = devices.steps_us.len() as f64;
            let parts = PERCENTILES.map(|part| part / 100.0);
            let latency = PERCENTILES
                .into_iter()
                .zip(stats::quantiles(&devices.steps_us, &parts))
                .collect();
            Ok(Outcome {
                iops: stats::ratio(count, devices.seconds).unwrap_or(0.0),
                latency,
                commands: count,
            })
        }
    }
}

/// A line of a file of runs.
pub fn parse(line: &str) -> Result<Run, Malformed> {
    let Line {
        busy,
        other,
        steal,
        run,
    } = serde_json::from_str(line).map_err(Malformed::Json)?;
    let Outcome {
        iops,
        latency,
        commands,
    } = outcome(&run.output)?;
    if commands == 0.0 {
        return Err(Malformed::NoCommand);
    }
    Ok(Run {
        busy: busy || other > BUSY_LIMIT || steal > BUSY_LIMIT,
        iops,
        latency,
        cpu_us_per_io: cpu_used_us(&run.before, &run.after, run.cpus)? / commands,
        kworkers: run.kworkers,
        kworkers_busy: run.kworkers_busy,
        unit: Unit {
            bed: run.bed,
            fs: run.fs,
            mode: run.mode,
            workload: run.workload,
        },
        subject: run.subject,
        round: run.round,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(busy: bool, other: f64, jobs: &str) -> String {
        format!(
            r#"{{"busy":{busy},"other":{other},"steal":0.000,"run":{{"bed":"2ms","fs":"xfs",
            "mode":"dio","workload":"randread-16","subject":"in-tree","round":1,"cpus":2,
            "kworkers":20,"kworkers_busy":3,
            "before":"100.00 cpu  10 0 10 1000 0 0 5 0 0 0",
            "after":"104.00 cpu  90 0 90 1500 100 0 5 0 0 0",
            "fio":{{"fio version":"fio-3.39","jobs":[{jobs}]}}}}}}"#
        )
        .replace('\n', " ")
    }

    fn job(name: &str, error: i32, ios: u64) -> String {
        format!(
            r#"{{"jobname":"{name}","error":{error},"mixed":{{"iops":2500.5,"total_ios":{ios},
            "lat_ns":{{"min":1,"percentile":{{"50.000000":4000,"99.000000":9000,"99.900000":20000,
            "100.000000":30000,"5.000000":1500}}}}}}}}"#
        )
    }

    #[test]
    fn a_run_of_fio() {
        let run = parse(&line(false, 0.02, &job("measured", 0, 10_000))).unwrap();
        assert_eq!(run.unit.bed, "2ms");
        assert_eq!((run.subject.as_str(), run.round), ("in-tree", 1));
        assert_eq!(run.iops, 2500.5);
        assert_eq!(
            run.latency,
            [
                (5.0, 1.5),
                (50.0, 4.0),
                (99.0, 9.0),
                (99.9, 20.0),
                (100.0, 30.0)
            ]
        );
        // 4 s of two CPUs, of which 6 s idle: 2 s for 10000 commands.
        assert!((run.cpu_us_per_io - 200.0).abs() < 1e-6);
        assert_eq!((run.kworkers, run.kworkers_busy), (20, 3));
        assert!(!run.busy);
    }

    #[test]
    fn the_measured_job_counts_and_all_share_the_cpu() {
        let jobs = format!(
            "{},{}",
            job("beside", 0, 30_000),
            job("measured", 0, 10_000).replace("2500.5", "77.0")
        );
        let run = parse(&line(false, 0.0, &jobs)).unwrap();
        assert_eq!(run.iops, 77.0);
        assert!((run.cpu_us_per_io - 50.0).abs() < 1e-6);
    }

    #[test]
    fn busy_by_request_or_by_measurement() {
        let jobs = job("measured", 0, 1);
        assert!(parse(&line(true, 0.0, &jobs)).unwrap().busy);
        assert!(parse(&line(false, 0.11, &jobs)).unwrap().busy);
        assert!(!parse(&line(false, 0.1, &jobs)).unwrap().busy);
    }

    #[test]
    fn latency_need_not_be_measured() {
        let job = r#"{"jobname":"measured","error":0,"mixed":{"iops":9.0,"total_ios":9,
            "lat_ns":{"min":0,"max":0}}}"#;
        let run = parse(&line(false, 0.0, job)).unwrap();
        assert_eq!(run.iops, 9.0);
        assert!(run.latency.is_empty());
    }

    #[test]
    fn what_is_no_run() {
        assert!(matches!(
            parse(&line(false, 0.0, "")),
            Err(Malformed::NoJob)
        ));
        assert!(matches!(
            parse(&line(false, 0.0, &job("measured", 5, 1))),
            Err(Malformed::Failed(5))
        ));
        assert!(matches!(
            parse(&line(false, 0.0, &job("measured", 0, 0))),
            Err(Malformed::NoCommand)
        ));
        assert!(matches!(parse("{"), Err(Malformed::Json(_))));
        let good = line(false, 0.0, &job("measured", 0, 1));
        assert!(matches!(
            parse(&good.replace("104.00 cpu", "99.00 cpu")),
            Err(Malformed::CpuTimes(_))
        ));
        assert!(matches!(
            parse(&good.replace("104.00 cpu", "104.00 intr")),
            Err(Malformed::CpuTimes(_))
        ));
    }

    #[test]
    fn a_run_of_devices() {
        let line = r#"{"busy":false,"other":0,"steal":0,"run":{"bed":"100us","fs":"xfs","mode":"dio",
            "workload":"devices-500","subject":"in-tree","round":0,"cpus":2,"kworkers":0,
            "kworkers_busy":0,"before":"1.00 cpu 0 0 0 0 0","after":"2.00 cpu 0 0 0 100 0",
            "devices":{"seconds":0.5,"steps_us":[30.0,10.0,20.0,40.0]}}}"#;
        let run = parse(line).unwrap();
        assert_eq!(run.iops, 8.0);
        assert_eq!(run.latency[3], (50.0, 20.0));
        assert_eq!(run.latency[10], (100.0, 40.0));
        assert!((run.cpu_us_per_io - 250_000.0).abs() < 1e-6);
    }
}
