// SPDX-License-Identifier: GPL-2.0

//! The interface of a loop driver, exercised step by step and written down, so that two drivers
//! can be compared. Built for 64 and for 32 bits; `tools/check-abi` runs it in a guest.
//!
//! | call                               | does                                                  |
//! |------------------------------------|-------------------------------------------------------|
//! | `table`, `parameters`              | prints fixed steps                                    |
//! | `random SEED COUNT`                | prints random ones                                    |
//! | `run DRIVER PLACE...`              | carries out those of stdin, writes the transcript     |
//! | `other PLACE...`                   | is the second process of that, see `other.rs`         |
//! | `report EXPECTED RESULTS RUNNER RUN...` | compares, see `report.rs`                        |

mod actor;
mod compare;
mod kapi;
mod other;
mod random;
mod report;
mod sysfs;
mod table;
mod uapi;
mod uevent;
mod world;

use std::{io::Write, path::Path, process::ExitCode};

fn run(driver: &str, places: actor::Places) -> ExitCode {
    let mut world = match world::World::new(places, driver) {
        Ok(world) => world,
        Err(errno) => {
            eprintln!("abi: no world: {errno}");
            return ExitCode::FAILURE;
        }
    };
    // A line at a time, so that the last one tells of the step before the one that never ended.
    let mut out = std::io::stdout();
    for step in std::io::stdin().lines().map_while(Result::ok) {
        let mut line = step.clone();
        for (name, value) in world.step(&step) {
            line.push_str(&format!("\t{name}={value}"));
        }
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    world.end();
    ExitCode::SUCCESS
}

fn places(args: &[&str]) -> actor::Places {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    actor::Places::from_args(&args.try_into().expect("five places"))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["table"] => {
            println!("{}", table::steps().join("\n"));
            ExitCode::SUCCESS
        }
        ["parameters"] => {
            println!("{}", table::parameters().join("\n"));
            ExitCode::SUCCESS
        }
        ["random", seed, count] => {
            let number = |word: &str| word.parse::<u64>().expect("a number");
            println!(
                "{}",
                random::steps(number(seed), number(count) as usize).join("\n")
            );
            ExitCode::SUCCESS
        }
        ["run", driver, ref rest @ ..] => run(driver, places(rest)),
        ["other", ref rest @ ..] => {
            let actor = actor::Actor::new(places(rest));
            other::serve(actor.unwrap_or_else(|errno| panic!("no openings: {errno}")));
            ExitCode::SUCCESS
        }
        ["report", expected, results, runner, ..] => {
            let text = std::fs::read_to_string(expected).expect("the expected differences");
            let list = compare::Expected::parse(&text).unwrap_or_else(|error| {
                eprintln!("{expected}: {error}");
                std::process::exit(2)
            });
            let report = report::Report {
                results: Path::new(results),
                runner: Path::new(runner),
                expected: &list,
            };
            if report.print(&args[4..]) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        _ => {
            eprintln!("usage: see src/main.rs");
            ExitCode::FAILURE
        }
    }
}
