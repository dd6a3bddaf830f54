//! Names that programs are written with: the same few texts become names of fields and events over and over.

use std::cell::RefCell;
use std::sync::Arc;

/// Places for names; two that share one take turns.
const SLOTS: usize = 256;

/// A text of the program, and the same as a value has it.
type Known = (&'static str, Arc<str>);

thread_local! {
    static KNOWN: RefCell<Vec<Option<Known>>> = RefCell::new(vec![None; SLOTS]);
}

/// A text that is part of the program, as a name. It is made once for each thread, as a rule.
pub fn known(text: &'static str) -> Arc<str> {
    let at = text.as_ptr() as usize;
    let slot = (at ^ (at >> 8) ^ text.len()) % SLOTS;
    KNOWN.with_borrow_mut(|known| match &mut known[slot] {
        // The same place in the program: not even compared letter by letter.
        Some((same, name)) if std::ptr::eq(*same, text) => name.clone(),
        other => {
            let name: Arc<str> = text.into();
            *other = Some((text, name.clone()));
            name
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_name_is_its_text_whoever_shares_its_place() {
        let texts = ["status", "output", "error", "kind", "token", "visit", "status"];
        for text in texts.iter().cycle().take(1_000) {
            assert_eq!(&*known(text), *text);
        }
        let whole = "status.output";
        assert_eq!((&*known(&whole[..6]), &*known(whole)), ("status", whole));
        assert!(Arc::ptr_eq(&known("same"), &known("same")));
    }
}
