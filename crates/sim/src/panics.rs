//! Panics in a world. A task that panics ends alone: nothing else would tell of it.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// Those of this thread, which is one world's.
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// From now on they are noted.
pub(crate) fn note() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            SEEN.with_borrow_mut(|seen| seen.push(info.to_string()));
            report(info);
        }));
    });
    SEEN.take();
}

/// Those that were noted on this thread.
pub(crate) fn noted() -> Vec<String> {
    SEEN.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_noted_once() {
        note();
        let task = tokio::spawn(async { panic!("out of joint") });
        assert!(task.await.unwrap_err().is_panic());
        let noted = noted();
        assert!(noted.len() == 1 && noted[0].contains("out of joint"), "{noted:?}");
        assert!(super::noted().is_empty());
    }
}
