//! Names that programs are written with: the same few texts become names of fields and events over and over.

use std::cell::RefCell;
use std::sync::Arc;

/// Places for names; two that share one take turns.
const SLOTS: usize = 256;

/// A text of the program, and the same as a value has it.
type InternedName = (&'static str, Arc<str>);

thread_local! {
    static INTERNED: RefCell<Vec<Option<InternedName>>> = RefCell::new(vec![None; SLOTS]);
}

/// A text that is part of the program, as a name. It is made once for each thread, as a rule.
pub fn interned(text: &'static str) -> Arc<str> {
    let at = text.as_ptr() as usize;
    let slot = (at ^ (at >> 8) ^ text.len()) % SLOTS;
    INTERNED.with_borrow_mut(|slots| match &mut slots[slot] {
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
    fn an_interned_name_equals_its_text_even_if_slots_collide() {
        let texts = ["status", "output", "error", "kind", "token", "visit", "status"];
        for text in texts.iter().cycle().take(1_000) {
            assert_eq!(&*interned(text), *text);
        }
        let whole = "status.output";
        assert_eq!((&*interned(&whole[..6]), &*interned(whole)), ("status", whole));
        assert!(Arc::ptr_eq(&interned("same"), &interned("same")));
    }
}
