// SPDX-License-Identifier: GPL-2.0

//! The verdict over all transcripts, in TAP, and the shrinking of random steps that differ.

use crate::compare::{compare, is_housekeeping, Expected};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Differences that are printed of each program.
const SHOWN: usize = 25;

/// Rounds of shrinking: each runs both drivers once.
const ROUNDS: usize = 16;

/// Where things are.
pub struct Report<'a> {
    /// Programs, `BITS-PROGRAM`, and their transcripts, `DRIVER-BITS-PROGRAM`.
    pub results: &'a Path,
    /// The program that runs steps on a driver: `run DRIVER BITS PROGRAM-FILE TRANSCRIPT-FILE`.
    pub runner: &'a Path,
    pub expected: &'a [Expected],
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Whether a line of a transcript is of a step that counts: random ones may be by an opening that
/// is not there, or is there already.
fn is_carried_out(line: &str) -> bool {
    let step = line.split('\t').next().unwrap_or("");
    !is_housekeeping(step) && !line.contains("\tresult=none") && !line.contains("\tresult=taken")
}

impl Report<'_> {
    fn transcript(&self, driver: &str, run: &str) -> PathBuf {
        self.results.join(format!("{driver}-{run}"))
    }

    /// Prints it; whether all is as expected. `runs` are `BITS-PROGRAM`. Steps that a transcript
    /// lacks are one difference that nothing explains.
    pub fn print(&self, runs: &[String]) -> bool {
        let (mut fixed, mut random, mut explained, mut unexplained) = (0, 0, 0, 0);
        let mut good = true;
        let mut point = 0;
        let mut tap = |passed: bool, name: &str| {
            point += 1;
            good &= passed;
            println!("{}ok {point} - {name}", if passed { "" } else { "not " });
        };
        for run in runs {
            let (bits, program) = run.split_once('-').expect("BITS-PROGRAM");
            let steps = read(&self.results.join(run));
            let in_tree = read(&self.transcript("loop", run));
            let ours = read(&self.transcript("rust_loop", run));
            let count = in_tree.lines().filter(|line| is_carried_out(line)).count();
            if program.starts_with("random") {
                random += count;
            } else {
                fixed += count;
            }
            let lines = [&steps, &in_tree, &ours].map(|text| text.lines().count());
            if lines[1] != lines[0] || lines[2] != lines[0] {
                unexplained += 1;
                tap(
                    false,
                    &format!(
                        "abi: {bits} bits, {program}: ended after {} and {} of {} steps",
                        lines[1], lines[2], lines[0]
                    ),
                );
                continue;
            }
            let (known, unknown) = compare(bits, &in_tree, &ours, self.expected);
            explained += known;
            unexplained += unknown.len();
            tap(
                unknown.is_empty(),
                &format!("abi: {bits} bits, {program}: {count} steps"),
            );
            for difference in unknown.iter().take(SHOWN) {
                println!("# {}", difference.to_string().replace('\n', "\n# "));
            }
            if unknown.len() > SHOWN {
                println!("# and {} more", unknown.len() - SHOWN);
            }
            if let (Some(first), true) = (unknown.first(), program.starts_with("random")) {
                let steps: Vec<&str> = steps.lines().take(first.index + 1).collect();
                self.shrink(bits, program, &steps);
            }
        }
        for entry in self.expected {
            if entry.is_stale() {
                tap(
                    false,
                    &format!("abi: difference [{}] is not there any more", entry.name()),
                );
            }
        }
        println!("1..{point}");
        println!("# {fixed} steps fixed, {random} random, {explained} differences explained");
        println!("{unexplained} unexplained");
        good
    }

    /// Prints as few steps as still lead to a difference that is not expected; the last one of
    /// `steps` does.
    fn shrink(&self, bits: &str, program: &str, steps: &[&str]) {
        let begin = steps
            .iter()
            .rposition(|step| *step == "fresh")
            .map_or(0, |i| i + 1);
        let mut steps = steps[begin..].to_vec();
        let mut chunks = 2;
        for _ in 0..ROUNDS {
            if steps.len() < 2 {
                break;
            }
            let size = steps.len().div_ceil(chunks);
            // The rest without each chunk.
            let candidates: Vec<Vec<&str>> = (0..steps.len())
                .step_by(size)
                .map(|i| [&steps[..i], &steps[(i + size).min(steps.len())..]].concat())
                .collect();
            match self.first_failing(bits, &candidates) {
                Some(candidate) => {
                    steps = candidate;
                    chunks = (chunks - 1).max(2);
                }
                None if size == 1 => break,
                None => chunks = (2 * chunks).min(steps.len()),
            }
        }
        println!("# {program}, {bits} bits, shrunk to:");
        for step in &steps {
            println!("#   {step}");
        }
    }

    fn first_failing<'a>(&self, bits: &str, candidates: &[Vec<&'a str>]) -> Option<Vec<&'a str>> {
        let program = self.results.join("shrink");
        let lines = candidates
            .iter()
            .flat_map(|steps| ["fresh"].iter().chain(steps).copied());
        fs::write(&program, lines.collect::<Vec<_>>().join("\n")).expect("writing a program");
        let [in_tree, ours] = ["loop", "rust_loop"].map(|driver| {
            let transcript = self.transcript(driver, &format!("{bits}-shrink"));
            let ran = Command::new(self.runner)
                .args(["run", driver, bits])
                .args([&program, &transcript])
                .status();
            ran.is_ok_and(|status| status.success())
                .then(|| read(&transcript))
        });
        let (in_tree, ours) = (in_tree?, ours?);
        let (_, unexplained) = compare(bits, &in_tree, &ours, self.expected);
        let mut line = 0;
        candidates
            .iter()
            .find(|steps| {
                let lines = line..line + 1 + steps.len();
                line = lines.end;
                // Not that of bringing the devices back, which is the one before's.
                unexplained
                    .iter()
                    .any(|d| lines.contains(&d.index) && d.index != lines.start)
            })
            .cloned()
    }
}
