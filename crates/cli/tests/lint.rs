//! `jobferry lint`, the real binary, as people run it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const GOOD: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  managedBy: jobferry.dev/dispatcher
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: 'app:1'}]
";

const FAULTY: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  managedBy: queue
  ttlSecondsAfterFinished: 5
  paralelism: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: Main
        image: app:1
      volumes:
      - name: data
        hostPath: {path: /data}
";

fn lint(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_jobferry"))
        .arg("lint")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The binary may refuse to read on; then the rest of the input has nowhere to go.
    let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_good_job_is_accepted_and_its_defaults_are_shown() {
    let (code, stdout, stderr) = lint(&["-"], GOOD.as_bytes());
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        stdout,
        "\
standard input, document 1 (line 1): Job train accepted
  default  spec.backoffLimit: 6
  default  spec.completionMode: \"NonIndexed\"
  default  spec.completions: 1
  default  spec.manualSelector: false
  default  spec.parallelism: 1
  default  spec.podReplacementPolicy: \"TerminatingOrFailed\"
  default  spec.suspend: false
  default  spec.template.spec.containers[0].imagePullPolicy: \"IfNotPresent\"
  default  spec.template.spec.containers[0].terminationMessagePath: \"/dev/termination-log\"
  default  spec.template.spec.containers[0].terminationMessagePolicy: \"File\"
  default  spec.template.spec.dnsPolicy: \"ClusterFirst\"
  default  spec.template.spec.schedulerName: \"default-scheduler\"
  default  spec.template.spec.terminationGracePeriodSeconds: 30
"
    );
    assert_eq!(stderr, "Kubernetes 1.35: 1 documents, 0 errors, 0 warnings\n");
}

#[test]
fn errors_and_warnings_name_document_field_and_line() {
    let input = format!("{GOOD}---\n{FAULTY}");
    let (code, stdout, _) = lint(&["-"], input.as_bytes());
    assert_eq!(code, Some(1));
    for line in [
        "standard input, document 2 (line 11): Job train refused",
        "  error    spec.managedBy (line 15): Invalid value: \"queue\"",
        "  error    spec.template.spec.containers[0].name (line 22): Invalid value: \"Main\"",
        "  warning  spec.ttlSecondsAfterFinished (line 16): ",
        "  warning  spec.template.spec.volumes[0].hostPath (line 26): ",
        "  warning  spec.paralelism (line 17): ",
    ] {
        assert!(stdout.contains(line), "no `{line}` in\n{stdout}");
    }
}

#[test]
fn json_output_has_the_same_findings() {
    let (code, stdout, _) = lint(&["-o", "json", "--server", "v1.37", "-"], FAULTY.as_bytes());
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, Some(1));
    let document = &report["documents"][0];
    let codes = |list: &str| -> Vec<String> {
        let list = document[list].as_array().unwrap();
        list.iter().map(|finding| finding["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(codes("errors"), ["Invalid", "Invalid"]);
    assert_eq!(codes("warnings"), ["short-ttl", "host-path", "unknown-field"]);
    assert_eq!(document["errors"][0]["line"], 5);
    assert!(document["defaults"].as_array().unwrap().iter().any(|filled| filled["field"] == "spec.backoffLimit"));
}

#[test]
fn strict_makes_a_warning_fail() {
    let local = GOOD.replace("jobferry.dev/dispatcher", "kubernetes.io/job-controller");
    assert_eq!(lint(&["-"], local.as_bytes()).0, Some(0));
    let (code, stdout, _) = lint(&["--strict", "-"], local.as_bytes());
    assert_eq!(code, Some(1));
    assert!(stdout.contains("managed-by-reserved"), "{stdout}");
}

#[test]
fn warnings_tell_what_a_dispatcher_cannot_carry() {
    let table: &[(&str, &str, &str)] = &[
        ("managedBy: jobferry.dev/dispatcher", "suspend: false", "managed-by-missing"),
        ("jobferry.dev/dispatcher", "example.com/other", "managed-by-other"),
        ("image: 'app:1'", "image: app", "image-latest"),
        ("restartPolicy: Never", "restartPolicy: Never\n      serviceAccountName: robot", "reference"),
        ("name: train", "name: train.me", "name-with-dots"),
    ];
    for (from, to, warning) in table {
        let manifest = GOOD.replace(from, to);
        let (code, stdout, _) = lint(&["-"], manifest.as_bytes());
        assert_eq!(code, Some(0), "{manifest}{stdout}");
        assert!(stdout.contains(&format!("[{warning}]")), "no {warning} in\n{stdout}");
    }
    let name = "x".repeat(60);
    let indexed =
        GOOD.replace("train", &name).replace("spec:\n  managed", "spec:\n  completionMode: Indexed\n  managed");
    let (code, stdout, _) = lint(&["-"], indexed.as_bytes());
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("[long-name-for-indexed]"), "{stdout}");
}

#[test]
fn a_cron_job_is_judged_for_the_job_in_it() {
    let cron_job = "\
{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: '0 3 * * *', jobTemplate: {spec: {
  managedBy: x, template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'app:1'}]}}}}}}";
    let (code, stdout, _) = lint(&["-"], cron_job.as_bytes());
    assert_eq!(code, Some(1));
    assert!(stdout.contains("error    spec.jobTemplate.spec.managedBy (line 2)"), "{stdout}");
    let (_, stdout, _) = lint(&["-"], cron_job.replace("0 3 * * *", "61 * * * *").as_bytes());
    assert!(stdout.contains("error    spec.schedule (line 1)"), "{stdout}");
}

#[test]
fn lists_and_streams_of_json_are_many_documents() {
    let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"}}"#;
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{job},{job}]}}"#);
    for input in [list, format!("{job}\n{job}")] {
        let (code, stdout, stderr) = lint(&["-"], input.as_bytes());
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stdout.contains("document 2"), "{stdout}");
    }
}

#[test]
fn bad_input_is_named_and_ends_with_2() {
    let deep = "[".repeat(100_000);
    let deep_yaml = "- ".repeat(5_000) + "x";
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for pair in b"abcdefghij".windows(2) {
        let (from, to) = (char::from(pair[0]), char::from(pair[1]));
        let aliases = vec![format!("*{from}"); 9].join(", ");
        bomb = format!("{bomb}{to}: &{to} [{aliases}]\n");
    }
    let table: &[(&[u8], &[&str])] = &[
        (b"\xff\xfe\x00garbage", &["standard input", "not UTF-8"]),
        (b"a: b: c", &["document 1", "line 1"]),
        (deep.as_bytes(), &["document 1"]),
        (deep_yaml.as_bytes(), &["document 1", "line 1"]),
        (bomb.as_bytes(), &["document 1", "alias"]),
        (b"kind: Pod\napiVersion: v1", &["document 1", "field kind", "Pod"]),
        (b"kind: Job\napiVersion: batch/v2", &["document 1", "field kind", "batch/v2"]),
        (b"[1, 2]", &["document 1", "field kind"]),
        (b"# nothing\n", &["no document"]),
        (
            b"kind: Job\napiVersion: batch/v1\nspec:\n  template:\n    spec:\n      containers: [{ports: [{containerPort: x}]}]",
            &["document 1", "line 6", "spec.template.spec.containers[0].ports[0].containerPort"],
        ),
        (b"kind: Job\napiVersion: batch/v1\nspec: {parallelism: 99999999999}", &["document 1", "field spec.parallelism"]),
        (b"kind: Job\nkind: Job\napiVersion: batch/v1", &["document 1", "line 2", "uplicate"]),
    ];
    for (input, words) in table {
        let (code, _, stderr) = lint(&["-"], input);
        assert_eq!(code, Some(2), "{stderr}");
        for word in *words {
            assert!(stderr.contains(word), "no `{word}` in {stderr}");
        }
    }
}

#[test]
fn a_file_of_a_hundred_megabytes_is_refused_without_being_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("huge.yaml");
    std::fs::File::create(&path).unwrap().set_len(100 * 1024 * 1024).unwrap();
    let (code, _, stderr) = lint(&[path.to_str().unwrap()], b"");
    assert_eq!(code, Some(2));
    assert!(stderr.contains("huge.yaml") && stderr.contains("16 MiB"), "{stderr}");
}

#[test]
fn good_documents_are_judged_beside_bad_ones() {
    let input = format!("{GOOD}---\nkind: Pod\napiVersion: v1\n---\n{GOOD}");
    let (code, stdout, stderr) = lint(&["-"], input.as_bytes());
    assert_eq!(code, Some(2));
    assert!(stdout.contains("document 1") && stdout.contains("document 3"), "{stdout}");
    assert!(stderr.contains("document 2"), "{stderr}");
}
