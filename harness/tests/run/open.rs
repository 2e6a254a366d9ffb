use std::path::Path;
use std::process::Command;

/// The folder also holds the temporary files. Returns the exit code, stdout and stderr.
fn open(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    let output =
        command.arg("open").args(arguments).current_dir(folder).env("TMPDIR", folder).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn a_trace_is_found_by_its_file_its_folder_and_its_name_and_its_page_stays() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("reports/runs/golden");
    std::fs::create_dir_all(&run).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces/over-rate.jsonl");
    std::fs::copy(shipped, run.join("trace.jsonl")).unwrap();
    for named in ["reports/runs/golden/trace.jsonl", "reports/runs/golden", "golden"] {
        let (code, out, err) = open(folder.path(), &[named]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{named}");
        let page = std::fs::read_to_string(out.trim_end()).unwrap();
        assert!(page.contains("rate.envelope") && page.contains("<svg"), "{named}: {out}");
    }
    let (code, out, _) = open(folder.path(), &["golden", "--html", "page.html"]);
    assert_eq!((code, out.as_str()), (Some(0), "page.html\n"));
    assert!(std::fs::read_to_string(folder.path().join("page.html")).unwrap().contains("rate.envelope"));
}

#[test]
fn an_invalid_trace_is_refused_and_its_page_gives_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let changed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces/after-the-end.jsonl");
    for (named, expected) in [
        ("viral-spike", "found no trace at viral-spike, in it, or in reports/runs"),
        (changed.to_str().unwrap(), "line"),
    ] {
        let (code, out, err) = open(folder.path(), &[named]);
        assert!(code == Some(64) && err.contains(expected), "{code:?}: {err}");
        let page = std::fs::read_to_string(out.trim_end()).unwrap();
        assert!(page.contains("not judged") && page.contains(expected), "{page}");
    }
    let (code, _, err) = open(folder.path(), &["x", "--html", "no/such/folder/page.html"]);
    assert!(code == Some(70) && err.contains("no/such/folder/page.html"), "{code:?}: {err}");
}
