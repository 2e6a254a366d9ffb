//! As far as ours needs: mappings indented by two, lists on one line, blocks of text.

pub(crate) struct ComposeFile(pub(crate) String);

impl ComposeFile {
    /// Finds nested keys: the text after the last key, and the lines below it.
    fn find(&self, path: &[&str]) -> (&str, Vec<&str>) {
        let mut lines = self.0.lines();
        let mut beside = "";
        for (depth, key) in path.iter().enumerate() {
            let within = "  ".repeat(depth);
            let start = format!("{within}{key}:");
            beside = loop {
                let line = lines.next().unwrap_or_else(|| panic!("{path:?} is not there"));
                assert!(line.is_empty() || line.starts_with(&within), "{path:?} is not there: {line}");
                if let Some(beside) = line.strip_prefix(&start) {
                    break beside.trim();
                }
            };
        }
        let within = "  ".repeat(path.len());
        let below =
            lines.map_while(|line| if line.is_empty() { Some(line) } else { line.strip_prefix(&within) });
        (beside, below.collect())
    }

    pub(crate) fn value(&self, path: &[&str]) -> String {
        self.find(path).0.to_owned()
    }

    pub(crate) fn list(&self, path: &[&str]) -> Vec<String> {
        let (list, _) = self.find(path);
        serde_json::from_str(list).unwrap_or_else(|error| panic!("{path:?} is no list on one line: {error}"))
    }

    pub(crate) fn words(&self, path: &[&str]) -> Vec<String> {
        let (how, lines) = self.find(path);
        assert_eq!(how, ">-", "{path:?}");
        lines.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect()
    }

    pub(crate) fn content(&self, name: &str) -> String {
        let path = ["configs", name, "content"];
        let (how, lines) = self.find(&path);
        assert_eq!(how, "|", "{path:?}");
        // Compose substitutes variables after a single dollar.
        lines.iter().map(|line| line.replace("$$", "$") + "\n").collect()
    }
}

#[test]
fn a_file_is_read_as_compose_does() {
    let text = "services:\n  one:\n    image: x\n    test: [\"CMD\", \"a\"]\n\n  two:\n    image: y\n    command: >-\n      a b\n      c\n\
         configs:\n  one:\n    content: |\n      if $$x; then\n        echo\n\n      fi\n  two:\n    content: |\n      z\n";
    let file = ComposeFile(text.to_owned());
    assert_eq!(file.value(&["services", "two", "image"]), "y");
    assert_eq!(file.list(&["services", "one", "test"]), ["CMD", "a"]);
    assert_eq!(file.words(&["services", "two", "command"]), ["a", "b", "c"]);
    assert_eq!(file.content("one"), "if $x; then\n  echo\n\nfi\n");
}
