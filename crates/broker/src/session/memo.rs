//! What a request of a connection remembers for later ones.
//!
//! Only who put it there knows its type. It holds one value, which goes with the connection; how
//! much all connections may remember together is the affair of who remembers.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// A value that a connection remembers.
#[derive(Default, Debug)]
pub(crate) struct Memo(RefCell<Option<Rc<dyn Any>>>);

impl Memo {
    /// Returns the value, if it is of that type.
    pub(crate) fn get<T: 'static>(&self) -> Option<Rc<T>> {
        self.0.borrow().clone()?.downcast().ok()
    }

    /// Replaces the value.
    pub(crate) fn set<T: 'static>(&self, value: Option<T>) {
        *self.0.borrow_mut() = value.map(|value| Rc::new(value) as Rc<dyn Any>);
    }
}
