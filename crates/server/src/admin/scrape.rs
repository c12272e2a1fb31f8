//! The pages of metrics that are being made or sent: few, however many clients scrape.
//!
//! A scrape that comes while a page of its format is being made gets that page. A client takes its
//! page as slowly as the admin endpoint lets it, so made pages are counted until no client holds
//! them: while [`PAGES_MAX`] of a format are held, a scrape gets the younger one, which is not
//! older than the other one's client may take. Otherwise every scrape gets a new page. Invariant:
//! at most [`PAGES_MAX`] pages of a format are in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hyper::body::Bytes;
use tokio::sync::watch;

use crate::metrics::exposition::Format;

/// Most pages of one format that are made or sent at the same time.
const PAGES_MAX: usize = 2;

/// The text of a page. It is boxed, so that it is freed with the last [`Page`] and not with the
/// last [`Weak`].
#[derive(Debug)]
struct Text(Box<str>);

/// A page, kept until it is sent to the last client.
#[derive(Clone, Debug)]
struct Page(Arc<Text>);

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        self.0.0.as_bytes()
    }
}

/// The pages of one format.
#[derive(Default, Debug)]
struct FormatPages {
    /// The page that is being made; its sender is gone when that is over.
    making: Option<watch::Receiver<Option<Page>>>,
    /// Pages that were made, youngest last.
    // Bounded: `PAGES_MAX`; those that no client holds are forgotten before another is made.
    held: Vec<Weak<Text>>,
}

impl FormatPages {
    /// Returns the page that a new scrape shares with earlier ones, if it has to.
    fn shared(&mut self) -> Option<watch::Receiver<Option<Page>>> {
        // This is an error when the sender is gone.
        let making = self.making.as_ref();
        if let Some(making) = making.filter(|making| making.has_changed().is_ok()) {
            return Some(making.clone());
        }
        self.held.retain(|page| page.strong_count() > 0);
        let youngest = self.held.last().filter(|_| self.held.len() >= PAGES_MAX)?;
        // The last client may have taken it just now.
        let page = Page(youngest.upgrade()?);
        Some(watch::channel(Some(page)).1)
    }
}

/// The pages of both formats; clones share them.
#[derive(Clone, Default, Debug)]
pub(super) struct Pages {
    known: Arc<Mutex<[FormatPages; 2]>>,
}

impl Pages {
    /// Returns a page of a format, which `make` makes if there is none to share.
    ///
    /// The page is made even if the client that asked first goes. `None` if it could not be made.
    pub(super) async fn page<M>(&self, format: Format, make: impl FnOnce() -> M) -> Option<Bytes>
    where
        M: Future<Output = Option<String>> + Send + 'static,
    {
        let mut made = self.begun(format, make);
        let page = made.wait_for(Option::is_some).await;
        let page = page.ok().and_then(|page| page.clone());
        page.map(Bytes::from_owner)
    }

    fn begun<M>(&self, format: Format, make: impl FnOnce() -> M) -> watch::Receiver<Option<Page>>
    where
        M: Future<Output = Option<String>> + Send + 'static,
    {
        let mut known = self.known();
        let known = &mut known[format as usize];
        if let Some(shared) = known.shared() {
            return shared;
        }
        let (sender, made) = watch::channel(None);
        known.making = Some(made.clone());
        let (pages, making) = (self.clone(), make());
        tokio::spawn(async move {
            let page = making.await.map(|text| Arc::new(Text(text.into())));
            let mut known = pages.known();
            let known = &mut known[format as usize];
            known.making = None;
            if let Some(page) = page {
                known.held.push(Arc::downgrade(&page));
                sender.send_replace(Some(Page(page)));
            }
        });
        made
    }

    fn known(&self) -> MutexGuard<'_, [FormatPages; 2]> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::yield_now;

    #[tokio::test]
    async fn scrapes_at_the_same_time_share_a_page_and_later_ones_get_a_new_one() {
        let (pages, made) = (Pages::default(), Arc::new(AtomicUsize::new(0)));
        let scrape = || {
            let (pages, made) = (pages.clone(), Arc::clone(&made));
            tokio::spawn(async move {
                let make = || async move {
                    yield_now().await;
                    Some(format!("page {}", made.fetch_add(1, Ordering::Relaxed)))
                };
                pages.page(Format::Text, make).await
            })
        };
        let first = scrape();
        let others: Vec<_> = (0..50).map(|_| scrape()).collect();
        // The client that asked first goes.
        yield_now().await;
        first.abort();
        for other in others {
            assert_eq!(other.await.unwrap().unwrap(), "page 0");
        }
        assert_eq!(scrape().await.unwrap().unwrap(), "page 1");
        assert_eq!(scrape().await.unwrap().unwrap(), "page 2");
    }

    #[tokio::test]
    async fn a_page_that_cannot_be_made_is_none_and_the_next_scrape_asks_again() {
        let pages = Pages::default();
        assert!(pages.page(Format::Text, || async { None }).await.is_none());
        let page = pages.page(Format::Text, || async { Some("page".to_owned()) });
        assert_eq!(page.await.unwrap(), "page");
    }

    #[tokio::test]
    async fn clients_that_are_slow_to_take_a_page_hold_few_pages() {
        let pages = Pages::default();
        let scrape = |text: &str| {
            let text = text.to_owned();
            let page = pages.page(Format::OpenMetrics, || async { Some(text) });
            async { page.await.unwrap() }
        };
        let mut slow = vec![scrape("0").await, scrape("1").await];
        for _ in 0..50 {
            slow.push(scrape("another").await);
        }
        assert!(slow.iter().skip(1).all(|page| page == "1"));
        assert_eq!(pages.known()[Format::OpenMetrics as usize].held.len(), 2);
        slow.clear();
        assert_eq!(scrape("new").await, "new");
    }
}
