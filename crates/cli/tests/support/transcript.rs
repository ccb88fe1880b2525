//! Plays a transcript: a file of commands and what each must print.
//!
//! ```text
//! # What this part tells.
//! $ jobferry get nobody
//! ! error: job nobody not found in namespace default; ...
//! (exit 1)
//! ```
//!
//! Lines of stderr begin with `! `; an exit code other than 0 is the last line. A line `...` stands for any number of
//! lines. What differs from run to run is replaced by a word in angle brackets (`<age>`, `<uid>`), and columns may be of
//! another width. `JOBFERRY_UPDATE=1 cargo test` writes what was printed into the file where it does not fit.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::changing::{settle, squeeze};

const UPDATE: &str = "JOBFERRY_UPDATE";

/// A terminal: a directory to work in, and the program on the PATH under all its names.
pub(crate) struct Terminal {
    directory: tempfile::TempDir,
    variables: Vec<(String, String)>,
    /// Texts that differ from run to run, and what stands for them.
    changing: Vec<(String, &'static str)>,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["bin", "tmp"] {
            fs::create_dir(path(name)).unwrap();
        }
        for name in ["jobferry", "kubectl-jobferry", "kubectl_complete-jobferry"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_jobferry"), path("bin").join(name)).unwrap();
        }
        for folder in ["tests/transcripts/files", "../../examples"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            for file in fs::read_dir(&folder).unwrap().flatten() {
                fs::copy(file.path(), path(file.file_name().to_str().unwrap())).unwrap();
            }
        }
        let search = format!("{}:{}", path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let variables = [
            ("PATH", search),
            ("HOME", text(path(""))),
            ("TMPDIR", text(path("tmp"))),
            ("XDG_DATA_HOME", text(path("data"))),
            ("KUBECONFIG", String::new()),
        ];
        let changing = vec![(text(directory.path().to_owned()), "<dir>")];
        Self { variables: variables.map(|(key, value)| (key.to_owned(), value)).into(), changing, directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn set(&mut self, variable: &str, value: &str) {
        self.variables.push((variable.to_owned(), value.to_owned()));
    }

    /// This text differs from run to run.
    pub(crate) fn expect_change(&mut self, text: &str, shown: &'static str) {
        self.changing.insert(0, (text.to_owned(), shown));
    }

    /// A command line in this terminal.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        let variables = self.variables.iter().map(|(key, value)| (key, value));
        command.args(["-o", "pipefail", "-c", line]).current_dir(self.directory.path()).envs(variables);
        command.env_remove("JOBFERRY_LOG");
        command
    }

    /// Plays `tests/transcripts/NAME.txt`; what does not fit is returned, or written when the file is to be updated.
    pub(crate) fn play(&self, name: &str) -> Vec<String> {
        let file = format!("{}/tests/transcripts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let update = std::env::var_os(UPDATE).is_some();
        let (mut misfits, mut rewritten) = (Vec::new(), String::new());
        for part in parts(&text) {
            let Part::Step { command, expected } = part else {
                rewritten.push_str(part.text());
                continue;
            };
            let printed = self.run(command);
            let fits = fits(&expected, &printed.lines().collect::<Vec<_>>());
            let kept = if fits { expected.join("\n") } else { printed.trim_end().to_owned() };
            let _ = writeln!(rewritten, "$ {command}");
            if !kept.is_empty() {
                let _ = writeln!(rewritten, "{kept}");
            }
            rewritten.push('\n');
            if !fits && !update {
                let expected = expected.join("\n");
                misfits.push(format!("{name}.txt: $ {command}\n--- expected\n{expected}\n--- printed\n{printed}"));
            }
        }
        if update {
            fs::write(&file, rewritten.trim_end().to_owned() + "\n").unwrap();
        }
        misfits
    }

    fn run(&self, line: &str) -> String {
        let Output { status, stdout, stderr } = self.command(line).output().unwrap();
        let mut printed = self.settled(&String::from_utf8(stdout).unwrap());
        for line in self.settled(&String::from_utf8(stderr).unwrap()).lines() {
            let _ = writeln!(printed, "! {line}");
        }
        match status.code() {
            Some(0) => {}
            Some(code) => drop(writeln!(printed, "(exit {code})")),
            None => drop(writeln!(printed, "(killed)")),
        }
        printed
    }

    fn settled(&self, text: &str) -> String {
        let named = self.changing.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        settle(&named)
    }
}

/// A transcript that broke off may have left fleets running.
impl Drop for Terminal {
    fn drop(&mut self) {
        for fleet in ["jobferry down --dir fleet", "jobferry down"] {
            let _ = self.command(fleet).output();
        }
    }
}

enum Part<'a> {
    /// Comments and what stands between steps.
    Text(&'a str),
    Step {
        command: &'a str,
        expected: Vec<&'a str>,
    },
}

impl Part<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Step { .. } => "",
        }
    }
}

/// The steps of a transcript: each command, and what it must print.
pub(crate) fn steps(text: &str) -> Vec<(&str, String)> {
    let step = |part| match part {
        Part::Step { command, expected } => Some((command, expected.join("\n"))),
        Part::Text(_) => None,
    };
    parts(text).into_iter().filter_map(step).collect()
}

/// Steps begin with `$ ` and end before the next step or comment.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        if let Some(command) = bare.strip_prefix("$ ") {
            parts.push(Part::Step { command, expected: Vec::new() });
        } else if bare.starts_with("# ") {
            parts.push(Part::Text(line));
        } else {
            match parts.last_mut() {
                Some(Part::Step { expected, .. }) => expected.push(bare),
                _ => parts.push(Part::Text(line)),
            }
        }
    }
    for part in &mut parts {
        if let Part::Step { expected, .. } = part {
            while expected.last().is_some_and(|line| line.is_empty()) {
                expected.pop();
            }
        }
    }
    parts
}

/// Whether the lines fit; `...` stands for any number of them.
fn fits(expected: &[&str], printed: &[&str]) -> bool {
    match expected {
        [] => printed.iter().all(|line| line.is_empty()),
        ["...", rest @ ..] => (0..=printed.len()).any(|from| fits(rest, &printed[from..])),
        [line, rest @ ..] => {
            printed.split_first().is_some_and(|(first, others)| squeeze(line) == squeeze(first) && fits(rest, others))
        }
    }
}
