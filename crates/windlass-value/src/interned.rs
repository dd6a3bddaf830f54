//! Interned static names: the same few strings become names of fields and events over and over.

use std::cell::RefCell;
use std::sync::Arc;

/// Number of cache slots; two names that share a slot evict each other.
const SLOTS: usize = 256;

/// A string literal and its shared form.
type InternedName = (&'static str, Arc<str>);

thread_local! {
    static INTERNED: RefCell<Vec<Option<InternedName>>> = RefCell::new(vec![None; SLOTS]);
}

/// Returns a string literal as a shared name. The name is usually created once per thread.
pub fn interned(text: &'static str) -> Arc<str> {
    let at = text.as_ptr() as usize;
    let slot = (at ^ (at >> 8) ^ text.len()) % SLOTS;
    INTERNED.with_borrow_mut(|slots| match &mut slots[slot] {
        // The same address in the program: no need to compare the characters.
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
