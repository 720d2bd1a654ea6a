import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { ApiError } from '../api/client';
import { t } from '../i18n';
import { Button } from './Button';

/** A native dialog: the browser keeps focus inside and gives it back to what had it. */
export function Modal(props: { label: string; className: string; onClose: () => void; children: ReactNode }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog
      ref={ref}
      className={props.className}
      aria-label={props.label}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => event.target === ref.current && props.onClose()}
    >
      {props.children}
    </dialog>
  );
}

type Ask = {
  title: string;
  text: ReactNode;
  verb: string;
  danger?: boolean;
  /** A reason has to be written before the act is possible. */
  reason?: 'needed' | 'none';
  /** The word that has to be typed, for acts on many events of a production system. */
  typed?: string;
  act: (reason: string) => Promise<unknown>;
  onClose: () => void;
};

/** A question with its consequence, a reason, and an act. */
export function AskDialog({ title, text, verb, danger, reason = 'needed', typed, act, onClose }: Ask) {
  const [why, setWhy] = useState('');
  const [word, setWord] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const ids = useId();
  const ready = (reason === 'none' || why.trim() !== '') && (!typed || word === typed);

  async function submit(event: FormEvent) {
    event.preventDefault();
    // A dialog may be drawn inside another form; its submit is not that form's.
    event.stopPropagation();
    if (!ready || busy) return;
    setBusy(true);
    try {
      await act(why.trim());
      onClose();
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.detail || error.title} (${error.code})` : String(error));
      setBusy(false);
    }
  }

  return (
    <Modal label={title} className="dialog" onClose={onClose}>
      <form className="body" onSubmit={submit}>
        <h2>{title}</h2>
        <div className="t2">{text}</div>
        {reason === 'needed' && (
          <label className="field">
            <span>{t('reason')}</span>
            <input className="input" value={why} onChange={(event) => setWhy(event.target.value)} />
          </label>
        )}
        {typed && (
          <label className="field" htmlFor={`${ids}w`}>
            <span>{t('dialog.type', { word: typed })}</span>
            <input
              id={`${ids}w`}
              className="input"
              value={word}
              autoComplete="off"
              onChange={(event) => setWord(event.target.value)}
            />
          </label>
        )}
        {problem && (
          <p role="alert" className="m-bad c">
            {problem}
          </p>
        )}
        <div className="ends">
          <Button onClick={onClose}>{t('cancel')}</Button>
          <Button type="submit" kind={danger ? 'danger' : 'primary'} disabled={!ready} busy={busy}>
            {verb}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
