// SPDX-License-Identifier: GPL-2.0

//! A second process with openings of its own: this program once more, which reads steps and
//! writes their results.

use crate::actor::{Actor, Places};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// It exists from the first step for it on, until it is ended.
pub struct Other {
    /// Its command line.
    args: Vec<String>,
    process: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Other {
    pub fn new(places: &Places) -> Self {
        let mut args = vec!["other".to_owned()];
        args.extend(places.to_args());
        Self {
            args,
            process: None,
        }
    }

    /// Has one step carried out; its result.
    pub fn act(&mut self, step: &str) -> String {
        let (_, input, output) = self.process.get_or_insert_with(|| {
            let mut child = Command::new("/proc/self/exe")
                .args(&self.args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a second process");
            let input = child.stdin.take().expect("a pipe to it");
            let output = child.stdout.take().expect("a pipe from it");
            (child, input, BufReader::new(output))
        });
        let mut line = String::new();
        let answered = writeln!(input, "{step}").and_then(|()| output.read_line(&mut line));
        answered.expect("an answer of the second process");
        line.trim_end().to_owned()
    }

    /// Closes all its openings.
    pub fn close_all(&mut self) {
        if self.process.is_some() {
            self.act("close_all");
        }
    }

    /// Ends it with its openings, which are closed when this returns.
    pub fn end(&mut self, kill: bool) -> String {
        let Some((mut child, input, _output)) = self.process.take() else {
            return "none".to_owned();
        };
        if kill {
            child.kill().expect("a signal");
        }
        drop(input);
        let status = child.wait().expect("the end of the second process");
        status.to_string()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Is the second process.
pub fn serve(mut actor: Actor) {
    for step in std::io::stdin().lines().map_while(Result::ok) {
        if step == "close_all" {
            actor.close_all();
            println!();
        } else {
            println!("{}", actor.act(&step));
        }
    }
}
