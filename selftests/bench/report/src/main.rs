// SPDX-License-Identifier: GPL-2.0

//! The report of `make bench`: reads the runs that `tools/bench` has collected, writes
//! `results.json`, and in `report/` a Markdown table, plots, and one HTML file that holds all.
//!
//! | file          | holds                                                     |
//! |---------------|-----------------------------------------------------------|
//! | `record.rs`   | a run as the guest tells it, and what it amounts to       |
//! | `stats.rs`    | median, spread, ratio                                     |
//! | `rows.rs`     | rounds of one subject, made one row                       |
//! | `plot.rs`     | rows as SVG                                               |
//! | `markdown.rs`, `html.rs` | rows as text                                   |

mod html;
mod markdown;
mod plot;
mod record;
mod rows;
mod stats;

use clap::Parser;
use serde::Serialize;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// Makes tables and plots of the runs of make bench.
#[derive(Parser)]
struct Arguments {
    /// Folder with `machine` and a file `*.jsonl` of each workload.
    #[arg(long)]
    runs: PathBuf,

    /// Folder to write `results.json` and `report/` to.
    #[arg(long)]
    out: PathBuf,
}

/// `results.json`.
#[derive(Serialize)]
struct Results {
    /// What was measured where and when, as `tools/bench` wrote it.
    machine: serde_json::Value,
    rows: Vec<rows::Row>,
}

/// The files of runs, by name, so that the outcome does not hang on the order of a folder.
fn run_files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.to_string_lossy().contains(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn report(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut runs = Vec::new();
    for file in run_files(&arguments.runs)? {
        for (index, line) in fs::read_to_string(&file)?.lines().enumerate() {
            let run = record::parse(line)
                .map_err(|error| format!("{}:{}: {error}", file.display(), index + 1))?;
            runs.push(run);
        }
    }
    let results = Results {
        machine: serde_json::from_str(&fs::read_to_string(arguments.runs.join("machine"))?)?,
        rows: rows::rows(&runs),
    };
    write(
        &arguments.out.join("results.json"),
        &serde_json::to_string_pretty(&results)?,
    )?;

    let dir = arguments.out.join("report");
    fs::create_dir_all(&dir)?;
    let plots = plot::plots(&results.rows)?;
    for plot in &plots {
        write(&dir.join(format!("{}.svg", plot.name)), &plot.svg)?;
    }
    write(
        &dir.join("report.md"),
        &markdown::document(&results, &plots),
    )?;
    write(&dir.join("index.html"), &html::document(&results, &plots))
}

fn main() -> std::process::ExitCode {
    match report(&Arguments::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-report: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
