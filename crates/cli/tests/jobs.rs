//! Commands about Jobs, by the real binary against a fleet of `jobferry up`: what each prints and how it exits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod support;

use std::{fs, path::PathBuf, process::Output};

use support::{Background, fail, jobferry, succeed};

struct Fleet {
    _up: Background,
    kubeconfig: String,
    files: tempfile::TempDir,
}

impl Fleet {
    fn start() -> Self {
        let mut up = Background::start(jobferry(&["up", "--ephemeral", "--workers", "2"]));
        let kubeconfig = up.until("export KUBECONFIG=").trim_start_matches("export KUBECONFIG=").to_owned();
        up.until("ready");
        Self { _up: up, kubeconfig, files: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = jobferry(arguments);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// A Job of this name, with further lines for its metadata and its spec.
    fn job(&self, name: &str, metadata: &str, spec: &str, script: &str) -> String {
        let path: PathBuf = self.files.path().join(format!("{name}.yaml"));
        let text = format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n{metadata}\nspec:\n  backoffLimit: 0\n{spec}\n  \
             template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - name: main\n        image: none\n        \
             command: [sh, -c, '{script}']\n"
        );
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn text(output: &Output) -> (String, String, Option<i32>) {
    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (string(&output.stdout), string(&output.stderr), output.status.code())
}

#[test]
fn jobs_are_submitted_followed_explained_and_read() {
    let fleet = Fleet::start();

    let hello = fleet.job("hello", "", "", "echo hello; echo there");
    let (out, err, code) = text(&fleet.output(&["submit", "-f", &hello, "--wait"]));
    assert_eq!((out.as_str(), code), ("job/hello submitted\njob/hello complete\n", Some(0)), "{err}");
    assert!(err.contains("hello: Complete on worker-"), "{err}");
    assert_eq!(succeed(fleet.command(&["logs", "hello"])), "hello\nthere\n");

    let broken = fleet.job("broken", "", "", "echo no; exit 3");
    let (out, _, code) = text(&fleet.output(&["submit", "-f", &broken, "--wait"]));
    assert_eq!((out.as_str(), code), ("job/broken submitted\njob/broken failed\n", Some(100)));
    assert_eq!(text(&fleet.output(&["wait", "hello", "broken"])).2, Some(100));

    let patient = fleet.job("patient", "  annotations: {jobferry.dev/workers: mars}", "", "true");
    let explained = succeed(fleet.command(&["explain", "-f", &patient]));
    assert!(explained.contains("no worker would take a Job like this now"), "{explained}");
    succeed(fleet.command(&["submit", "-f", &patient]));
    let (_, err, code) = text(&fleet.output(&["wait", "patient", "--timeout", "1s"]));
    assert_eq!(code, Some(101), "{err}");
    let explained = succeed(fleet.command(&["explain", "patient", "-o", "json"]));
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["workers"][0]["verdict"], "not among the named workers");
    assert_eq!(explained["now"]["phase"], "Waiting");

    let table = succeed(fleet.command(&["get"]));
    for words in ["NAME", "hello", "Complete", "broken", "Failed", "patient", "Waiting"] {
        assert!(table.contains(words), "{words} is missing in\n{table}");
    }
    assert_eq!(succeed(fleet.command(&["get", "jobs", "hello", "-o", "name"])), "job/hello\n");
    assert!(succeed(fleet.command(&["get", "-A", "-o", "wide"])).starts_with("NAMESPACE"));

    let sweep =
        fleet.job("sweep", "", "  completionMode: Indexed\n  completions: 3", "echo index $JOB_COMPLETION_INDEX");
    succeed(fleet.command(&["submit", "-f", &sweep]));
    let (out, err, code) = text(&fleet.output(&["logs", "sweep", "-f"]));
    assert_eq!(code, Some(0), "{err}");
    for index in 0..3 {
        assert!(
            out.lines().any(|line| line.starts_with("sweep-") && line.ends_with(&format!("index {index}"))),
            "{out}"
        );
    }
}

#[test]
fn what_goes_wrong_is_named_with_the_object_and_the_next_step() {
    let fleet = Fleet::start();
    let hello = fleet.job("hello", "", "", "true");
    succeed(fleet.command(&["submit", "-f", &hello, "--wait"]));
    let wrong = fleet.job("wrong", "", "  completions: -1", "true");
    let others = fleet.job("others", "", "  managedBy: example.com/other", "true");
    let file = fleet.files.path().join("cronjob.yaml");
    fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n").unwrap();
    for (arguments, words) in [
        (&["submit", "-f", &hello][..], "cannot create job hello in namespace default"),
        (&["submit", "-f", &wrong], "spec.completions"),
        (&["submit", "-f", &others], "spec.managedBy is example.com/other"),
        (&["submit", "-f", file.to_str().unwrap()], "cannot judge ConfigMap"),
        (&["submit", "-f", "missing.yaml"], "missing.yaml"),
        (&["wait", "nobody"], "job nobody not found in namespace default"),
        (&["get", "nobody"], "job nobody not found in namespace default"),
        (&["explain", "nobody"], "job nobody in namespace default"),
        (&["logs", "nobody"], "job nobody in namespace default"),
        (&["get", "--context", "nowhere"], "nowhere"),
        (&["worker", "cordon", "nobody"], "nobody"),
    ] {
        let error = fail(fleet.command(arguments));
        assert!(error.contains("error: ") && error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn a_doctor_finds_what_is_missing_and_says_how_to_mend_it() {
    let fleet = Fleet::start();
    let (out, _, code) = text(&fleet.output(&["doctor"]));
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("dispatcher") && out.contains("connected, v1.35"), "{out}");
    for name in ["worker-1", "worker-2"] {
        succeed(fleet.command(&["worker", "forget", name]));
    }
    let (out, _, code) = text(&fleet.output(&["doctor"]));
    assert!(code == Some(1) && out.contains("there are none") && out.contains("jobferry worker join"), "{out}");
    let (out, _, code) = text(&jobferry(&["doctor", "--kubeconfig", "missing.yaml"]).output().unwrap());
    assert_eq!((out.as_str(), code), ("", Some(1)));
}

#[test]
fn shells_get_a_completion_script() {
    assert!(succeed(jobferry(&["completion", "bash"])).contains("jobferry"));
}
