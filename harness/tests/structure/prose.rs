//! Free relatives ("what it does", "whoever asks") and long sentences, in documents and comments.

use std::ops::AddAssign;

const FREE: [&str; 10] =
    ["who", "whom", "whose", "what", "whoever", "whatever", "whichever", "wherever", "whenever", "whomever"];
const LONG_WORDS: usize = 35;
/// Fewer words are a heading or a cell, and no sentence.
const SENTENCE_WORDS_MIN: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) words: usize,
    pub(crate) free: usize,
    pub(crate) sentences: usize,
    pub(crate) long: usize,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.words += other.words;
        self.free += other.free;
        self.sentences += other.sentences;
        self.long += other.long;
    }
}

pub(crate) struct Sentence {
    pub(crate) text: String,
    pub(crate) figures: Figures,
}

/// A Rust file has those of its comments, a document all outside of code blocks.
pub(crate) fn sentences(path: &str, text: &str) -> Vec<Sentence> {
    let blocks = if path.ends_with(".rs") {
        blocks(text.lines().map(comment))
    } else {
        blocks(text.lines().map(Some))
    };
    blocks.iter().flat_map(|block| split(block)).filter_map(|text| measured(&text)).collect()
}

fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("//")?;
    Some(line.strip_prefix(['/', '!']).unwrap_or(line))
}

/// Each on one line and without code.
fn blocks<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut fenced = false;
    for line in lines {
        let Some(line) = line.map(str::trim) else {
            blocks.push(String::new());
            continue;
        };
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence || line.is_empty() {
            blocks.push(String::new());
            continue;
        }
        if ["|", "#", "- ", "* "].iter().any(|start| line.starts_with(start)) {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().expect("one at least");
        block.push(' ');
        // Code counts as one word that is never measured.
        for (at, piece) in line.split('`').enumerate() {
            block.push_str(if at % 2 == 0 { piece } else { "X" });
        }
    }
    blocks.iter().map(|block| block.replace('|', ". ")).collect()
}

/// A sentence ends with a mark before a space.
fn split(block: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for word in block.split_whitespace() {
        let sentence = sentences.last_mut().expect("one at least");
        sentence.push_str(word);
        sentence.push(' ');
        if word.ends_with(['.', '!', '?']) {
            sentences.push(String::new());
        }
    }
    sentences
}

fn measured(text: &str) -> Option<Sentence> {
    let letters = |letter: char| letter.is_ascii_alphabetic();
    let words = text
        .split(|letter: char| !letters(letter) && !['\'', '’', '-'].contains(&letter))
        .filter(|word| word.contains(letters))
        .count();
    if words < SENTENCE_WORDS_MIN {
        return None;
    }
    let is_question = text.trim_end().ends_with('?');
    let named =
        text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').map(str::to_ascii_lowercase);
    let free = if is_question { 0 } else { named.filter(|word| FREE.contains(&word.as_str())).count() };
    let figures = Figures { words, free, sentences: 1, long: usize::from(words > LONG_WORDS) };
    Some(Sentence { text: text.trim().to_owned(), figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(sentences: &[Sentence]) -> Figures {
        let mut all = Figures::default();
        sentences.iter().for_each(|sentence| all += sentence.figures);
        all
    }

    #[track_caller]
    fn check(path: &str, text: &str, words: usize, free: usize, sentences: usize, long: usize) {
        assert_eq!(
            figures(&super::sentences(path, text)),
            Figures { words, free, sentences, long },
            "{text}"
        );
    }

    #[test]
    fn free_relatives_are_counted_and_questions_are_not() {
        check("a.md", "What nobody waits for waits for company.", 7, 1, 1, 0);
        check("a.md", "The writer batches confirmations.", 4, 0, 1, 0);
        check("a.md", "What do you want? Tell whoever asks.", 7, 1, 2, 0);
    }

    #[test]
    fn a_sentence_of_more_than_thirty_five_words_is_long() {
        check("a.md", &format!("{}.", "word ".repeat(35).trim()), 35, 0, 1, 0);
        check("a.md", &format!("{}.", "word ".repeat(36).trim()), 36, 0, 1, 1);
        check("a.md", &format!("{}\n{}.", "word ".repeat(20), "word ".repeat(20).trim()), 40, 0, 1, 1);
    }

    #[test]
    fn code_is_not_prose_and_cells_and_items_begin_anew() {
        check("a.md", "Call `what whoever` with care.", 4, 0, 1, 0);
        check("a.md", "```sh\nwhat whoever does\n```\nOne two three.", 3, 0, 1, 0);
        check("a.md", "- one two three\n- four five six\n\n| a b c | d e f |", 12, 0, 4, 0);
    }

    #[test]
    fn of_rust_the_comments_count() {
        check("a.rs", "//! What it is for.\nlet what = whoever;\n/// One two three.\n", 7, 1, 2, 0);
    }
}
