// SPDX-License-Identifier: GPL-2.0

//! Compares what two drivers made of the same steps, less what is expected to differ.

use std::{cell::Cell, collections::BTreeMap};

/// One entry of `expected-differences`.
pub struct Expected {
    name: String,
    /// Patterns, in which `*` is any text; no pattern fits all.
    keys: BTreeMap<String, String>,
    used: Cell<usize>,
}

const KEYS: [&str; 8] = [
    "bits", "after", "step", "field", "in-tree", "ours", "reason", "seldom",
];

/// A difference in one field of the outcome of one step.
pub struct Difference<'a> {
    /// Which step.
    pub index: usize,
    step: &'a str,
    field: &'a str,
    in_tree: &'a str,
    ours: &'a str,
}

impl std::fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "step {}: {}\n  {}\n    in-tree: {}\n    ours:    {}",
            self.index, self.step, self.field, self.in_tree, self.ours
        )
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len()).any(|i| tail.is_char_boundary(i) && fits(rest, &tail[i..]))
        }),
    }
}

impl Expected {
    /// Reads the list: paragraphs of `key: value` lines under a `[name]`, `#` begins a comment.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut list: Vec<Self> = Vec::new();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                list.push(Self {
                    name: name.to_owned(),
                    keys: BTreeMap::new(),
                    used: Cell::new(0),
                });
                continue;
            }
            let (key, value) = line.split_once(':').ok_or(format!("no key: {line}"))?;
            let entry = list.last_mut().ok_or(format!("no [name] before: {line}"))?;
            if !KEYS.contains(&key) {
                return Err(format!("[{}]: no such key: {key}", entry.name));
            }
            entry.keys.insert(key.to_owned(), value.trim().to_owned());
        }
        match list
            .iter()
            .find(|e| e.reason().is_empty() || !e.keys.contains_key("step"))
        {
            Some(entry) => Err(format!("[{}]: needs a step and a reason", entry.name)),
            None => Ok(list),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn reason(&self) -> &str {
        self.keys.get("reason").map_or("", String::as_str)
    }

    /// Whether it has explained no difference, though it should have: the fixed steps have one.
    pub fn is_stale(&self) -> bool {
        self.used.get() == 0 && !self.keys.contains_key("seldom")
    }

    fn explains(&self, bits: &str, before: &[&str], difference: &Difference<'_>) -> bool {
        let fits_key = |key: &str, text: &str| self.keys.get(key).is_none_or(|p| fits(p, text));
        fits_key("bits", bits)
            && fits_key("step", difference.step)
            && fits_key("field", difference.field)
            && fits_key("in-tree", difference.in_tree)
            && fits_key("ours", difference.ours)
            && self
                .keys
                .get("after")
                .is_none_or(|p| before.iter().any(|step| fits(p, step)))
    }
}

/// A line of a transcript: the step, and its fields.
fn fields(line: &str) -> (&str, BTreeMap<&str, &str>) {
    let mut parts = line.split('\t');
    let step = parts.next().unwrap_or("");
    let step = step.strip_prefix("quick ").unwrap_or(step);
    (
        step,
        parts.filter_map(|part| part.split_once('=')).collect(),
    )
}

/// Whether a step only brings the devices back to where they were.
pub fn is_housekeeping(step: &str) -> bool {
    step == "fresh" || step == "reset"
}

/// The differences that are expected, counted, and those that are not.
pub fn compare<'a>(
    bits: &str,
    in_tree: &'a str,
    ours: &'a str,
    expected: &[Expected],
) -> (usize, Vec<Difference<'a>>) {
    let (mut explained, mut unexplained) = (0, Vec::new());
    let mut before: Vec<&str> = Vec::new();
    for (index, (line_a, line_b)) in in_tree.lines().zip(ours.lines()).enumerate() {
        let ((step, a), (step_b, b)) = (fields(line_a), fields(line_b));
        assert_eq!(step, step_b, "transcripts of different steps");
        for field in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
            let value = |of: &BTreeMap<&str, &'a str>| *of.get(field).unwrap_or(&"-");
            let difference = Difference {
                index,
                step,
                field,
                in_tree: value(&a),
                ours: value(&b),
            };
            if difference.in_tree == difference.ours {
                continue;
            }
            match expected
                .iter()
                .find(|e| e.explains(bits, &before, &difference))
            {
                Some(entry) => {
                    entry.used.set(entry.used.get() + 1);
                    explained += 1;
                }
                None => unexplained.push(difference),
            }
        }
        if is_housekeeping(step) {
            before.clear();
        } else {
            before.push(step);
        }
    }
    (explained, unexplained)
}
